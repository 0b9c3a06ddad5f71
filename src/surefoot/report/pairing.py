"""Two quantities of a run at the same moments, and how they go together along training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from surefoot.report.marks import Mark
from surefoot.report.quantities import QUANTITIES
from surefoot.report.tracks import Track
from surefoot.statistics import LEAST, Estimate, correlate, pearson, spearman

OfMethod = tuple[str, Mark, Sequence[Track]]


@dataclass(frozen=True)
class TrackedQuantity:
    """A tracked quantity: its key in the records, and what it is called."""

    key: str
    name: str


@dataclass(frozen=True)
class QuantityPair:
    """Two quantities of one split. Of several sources for x, the first that a method recorded is taken."""

    split: str
    x: tuple[TrackedQuantity, ...]
    y: TrackedQuantity


ON_TRAIN = TrackedQuantity("gn_sharpness/value", "sharpness on training examples")
ON_TEST = TrackedQuantity("sharpness_on_test/value", "sharpness on test examples")
HELD_OUT = TrackedQuantity("gn_sharpness/held_out", "sharpness outside the probe, but not on test examples")


def _of(split: str, key: str) -> TrackedQuantity:
    return TrackedQuantity(f"{split}/{key}", QUANTITIES[key].label)


PHASES = (
    QuantityPair("train", (ON_TRAIN,), _of("train", "ece")),
    QuantityPair("test", (ON_TEST, HELD_OUT), _of("test", "ece")),
)
PAIRS = (
    *PHASES,
    *(QuantityPair(split, (_of(split, "margin_median"),), _of(split, "ece")) for split in ("train", "test")),
    QuantityPair("train", (ON_TRAIN,), _of("train", "margin_median")),
)


@dataclass(frozen=True)
class PairedSeries:
    """Two quantities of one run at the same steps; ``exact`` if both were measured at all of them."""

    steps: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]
    exact: bool


@dataclass(frozen=True)
class Together:
    """Two quantities of one method, correlated along its runs."""

    label: str
    mark: Mark
    split: str
    words: str
    pearson: Estimate
    spearman: Estimate
    n_points: int
    exact: bool


def read_moments(tracks: Iterable[Track], x: str, y: str) -> list[PairedSeries]:
    """Pair two quantities run by run.

    Steps at which both were measured are taken where there are enough of them for an interval. Else x is read off, on
    a straight line, between its own measurements at the steps at which y was measured.

    Args:
        tracks: Of the runs of one method.
        x: Key of the one.
        y: Key of the other.

    Returns:
        One series per run that recorded both at least twice.
    """
    found = []
    for track in tracks:
        xs, ys = track.of(x), track.of(y)
        if len(xs) < 2 or len(ys) < 2:
            continue
        common = sorted(xs.keys() & ys.keys())
        first, last = min(xs), max(xs)
        within = [step for step in sorted(ys) if first <= step <= last]
        exact = len(common) >= LEAST or len(common) >= len(within)
        steps = common if exact else within
        places = sorted(xs)
        read = [xs[step] for step in steps] if exact else np.interp(steps, places, [xs[at] for at in places]).tolist()
        found.append(PairedSeries(tuple(steps), tuple(read), tuple(ys[step] for step in steps), exact))
    return found


def read_pair(pair: QuantityPair, tracks: Sequence[Track]) -> tuple[TrackedQuantity, list[PairedSeries]] | None:
    """Read a pair from a method's runs by the first source of x that they recorded; None where they recorded none."""
    for source in pair.x:
        if found := read_moments(tracks, source.key, pair.y.key):
            return source, found
    return None


def correlations(methods: Sequence[OfMethod]) -> list[Together]:
    """Correlate all pairs for every method that recorded both.

    Args:
        methods: Label, mark and what was seen of the runs of each.

    Returns:
        Pair by pair, one entry per method.
    """
    found = []
    for pair in PAIRS:
        for label, mark, tracks in methods:
            read = read_pair(pair, tracks)
            if read is None:
                continue
            source, moments = read
            series = [(each.x, each.y) for each in moments]
            both = correlate(series, pearson), correlate(series, spearman)
            n_points = sum(len(each.steps) for each in moments)
            exact = all(each.exact for each in moments)
            words = f"{pair.y.name} and {source.name}"
            found.append(Together(label, mark, pair.split, words, *both, n_points, exact))
    return found
