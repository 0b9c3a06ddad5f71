"""More than two predictions of the same examples: which is best, and which cannot be told apart."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.auditing._measures import measure
from surefoot.auditing._ranking_words import ranking_words
from surefoot.auditing._reading import Reading
from surefoot.auditing.better import PairedRows, better_calibrated, ece_at
from surefoot.auditing.compare import Read, check_same_examples, differences_of, loss_difference, rows_paired
from surefoot.auditing.result import Audit, plain
from surefoot.errors import InputError
from surefoot.metrics.ece_interval import ece_difference
from surefoot.metrics.interval import Interval
from surefoot.statistics import bonferroni, holm, letters, p_value, step_down, tiers

MOST_MODELS = 30
BY = "nll"  # a proper score: only true probabilities make it smallest


@dataclass(frozen=True)
class RankedPair:
    """Two of the models, by their places in what was audited."""

    a: int
    b: int
    differences: dict[str, Interval]
    """A − B, with intervals that hold for all pairs at once."""
    p_value: float
    """Of their NLL being the same, after Holm's correction for all pairs."""
    better: int | None
    """The one with the smaller NLL, where they can be told apart."""
    better_calibrated: int | None
    """The better calibrated one, where that can be told after the same correction."""


@dataclass(frozen=True)
class Ranking:
    """Several predictions of the same examples, by NLL.

    Attributes:
        audits: Of all of them, as they were given.
        names: As short as they can be told apart.
        nll: Of each model.
        order: Their places in ``audits``, the smallest NLL first.
        tiers: Sets that cannot be told apart by NLL, the best first; a model may be in several.
        letters: Of each model, those of its sets.
        pairs: Every pair.
        level: Of all decisions together, and of all intervals together.
        sampled: On how many rows differences were computed; None for all.
    """

    audits: tuple[Audit, ...]
    names: tuple[str, ...]
    nll: tuple[Interval, ...]
    order: tuple[int, ...]
    tiers: tuple[tuple[int, ...], ...]
    letters: tuple[str, ...]
    pairs: tuple[RankedPair, ...]
    level: float
    sampled: int | None

    def sentence(self) -> str:
        """Say which is best, and which cannot be told apart."""
        return ranking_words(self)

    def to_json(self) -> dict[str, Any]:
        """Write the ranking for machines: differences A − B by the places of A and B."""
        found = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "audits"}
        found |= {key: [dataclasses.asdict(each) for each in found[key]] for key in ("nll", "pairs")}
        return {"sentence": self.sentence(), **plain(found)}


def rank_read(read: Sequence[Read], names: Sequence[str], level: float) -> Ranking:
    """Rank audits of the same examples by NLL, and say which are better calibrated.

    Every pair is compared example by example. Holm's correction makes the chance of a single wrong "better" among all
    pairs at most 1 − level, once for NLL and once for calibration.

    Args:
        read: Audits, and what was read for them.
        names: Of the models.
        level: Of all decisions together.

    Returns:
        The ranking.

    Raises:
        InputError: If the examples are not the same, or there are too many models.
    """
    if len(read) > MOST_MODELS:
        raise InputError(f"Expected at most {MOST_MODELS} models to rank, but got {len(read)}. Leave some out.")
    check_same_examples(read)
    audits, readings = tuple(audit for audit, _ in read), [reading for _, reading in read]
    places = list(itertools.combinations(range(len(read)), 2))
    few = rows_paired(readings[0])
    probs = [reading.probs(few) for reading in readings]
    labels = PairedRows.of(readings[0], readings[0], few).labels
    pairs = [PairedRows((probs[a], probs[b]), labels) for a, b in places]
    by_holm = holm([_p_value(pair, readings[a], readings[b]) for pair, (a, b) in zip(pairs, places, strict=True)])
    calibrated = _calibrated(audits, readings, pairs, places, level)
    each = bonferroni(level, len(places))
    eces = [ece_at(each, reading.bins.sums) for reading in readings]
    found = []
    for pair, (a, b), p, better in zip(pairs, places, by_holm, calibrated, strict=True):
        differences = differences_of(pair, readings[a], readings[b], ece_difference(eces[a], eces[b]), each)
        winner = (a if differences[BY].estimate < 0 else b) if p <= 1 - level else None
        found.append(RankedPair(a, b, differences, p, winner, better))
    order = sorted(range(len(read)), key=lambda number: (readings[number].values[BY].mean, number))
    sets = tiers(order, [(pair.a, pair.b) for pair in found if pair.better is not None])
    of_each = letters(order, sets)
    return Ranking(
        audits=audits,
        names=tuple(names),
        nll=tuple(measure(reading, (BY,), {}, level)[BY] for reading in readings),
        order=tuple(order),
        tiers=sets,
        letters=tuple(of_each[number] for number in range(len(read))),
        pairs=tuple(found),
        level=level,
        sampled=few if few < readings[0].n else None,
    )


def _p_value(pair: PairedRows, a: Reading, b: Reading) -> float:
    """Return that of equal NLL; 1 where it has no interval."""
    if not all(math.isfinite(each.values[BY].mean) for each in (a, b)):
        return 1.0
    return p_value(lambda level: 0.0 not in loss_difference(BY, pair, a, b, level))


def _calibrated(
    audits: Sequence[Audit],
    readings: Sequence[Reading],
    pairs: Sequence[PairedRows],
    places: Sequence[tuple[int, int]],
    level: float,
) -> list[int | None]:
    """Return the better calibrated one of each pair, where it can be told by Holm's rule."""
    if all(audit.two_classes is not None for audit in audits):
        return [_nearer(audits, a, b) for a, b in places]

    winners: list[int | None] = [None] * len(places)

    def decides(number: int, each: float) -> bool:
        a, b = places[number]
        bins = readings[a].bins.sums, readings[b].bins.sums
        share = len(pairs[number].labels) / readings[a].n
        found = better_calibrated(audits[a].verdict, audits[b].verdict, bins, pairs[number], share, level=each)
        if found is not None:
            winners[number] = a if found.letter == "A" else b
        return found is not None

    step_down(len(places), decides, level)
    return winners


def _nearer(audits: Sequence[Audit], a: int, b: int) -> int | None:
    """Of two classes: whose mean risk is nearer to the event rate, wherever in its interval that lies.

    All share the events, so all pairs are right at once wherever that one interval holds the rate.
    """
    one, other = audits[a].two_classes, audits[b].two_classes
    if one is None or other is None:
        return None
    low, high = one.risk.rate.low, one.risk.rate.high
    less = [abs(one.risk.mean - end) - abs(other.risk.mean - end) for end in (low, high)]
    return a if max(less) < 0 else b if min(less) > 0 else None
