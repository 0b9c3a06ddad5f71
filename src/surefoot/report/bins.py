"""Reliability bins of a method: read from its runs and pooled over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from surefoot.records import RunFolder
from surefoot.report.numbers import show_count, show_percent, signed


@dataclass(frozen=True)
class Bins:
    """Equal-width bins of confidence in [0, 1]; an empty bin has neither confidence nor accuracy."""

    count: tuple[int, ...]
    confidence: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    n_runs: int
    low: tuple[float | None, ...] | None = field(default=None, repr=False)
    high: tuple[float | None, ...] | None = field(default=None, repr=False)
    """Consistency bars: where accuracy lies by chance alone if the confidence is right."""

    @property
    def total(self) -> int:
        """How many predictions there are in all bins."""
        return sum(self.count)

    @property
    def mean_confidence(self) -> float:
        """Mean confidence over all predictions."""
        return _weighted(self.count, self.confidence) / self.total

    @property
    def mean_accuracy(self) -> float:
        """Fraction of correct predictions."""
        return _weighted(self.count, self.accuracy) / self.total


def read_bins(runs: Iterable[RunFolder]) -> dict[str | None, Bins]:
    """Collect a method's bins on the test split, pooled over its runs.

    Args:
        runs: Runs that differ in nothing but the seed.

    Returns:
        One entry per calibrator that was recorded, None standing for none and coming first, then temperature.
    """
    found: dict[str | None, list[Bins]] = {}
    for run in runs:
        for record in run.measures():
            if record["metric"] == "reliability" and record["split"] == "test":
                bins = record["bins"]
                one = Bins(tuple(bins["count"]), tuple(bins["confidence"]), tuple(bins["accuracy"]), 1)
                if one.total:
                    found.setdefault(record["calibrator"], []).append(one)
    return {name: pool(found[name]) for name in in_order(found)}


def in_order(calibrators: Iterable[str | None]) -> list[str | None]:
    """Sort calibrators for people: none, then temperature, then the others by name."""
    return sorted(calibrators, key=lambda name: (name is not None, name != "temperature", name or ""))


def pool(parts: Sequence[Bins]) -> Bins:
    r"""Put the predictions of several runs into one set of bins.

    Counts add up, and means are weighted by them: :math:`\bar c_b = \sum_s n_{sb} c_{sb} / \sum_s n_{sb}`. Runs that
    were binned otherwise than the first cannot be added and are left out; ``n_runs`` says how many were used.

    Args:
        parts: One per run, at least one.

    Returns:
        The pooled bins.

    Example:
        >>> one = Bins((0, 1), (None, 0.75), (None, 1.0), 1)
        >>> two = Bins((0, 3), (None, 0.25), (None, 0.0), 1)
        >>> pool([one, two])  # (0.75 + 3 · 0.25) / 4 and 1 / 4
        Bins(count=(0, 4), confidence=(None, 0.375), accuracy=(None, 0.25), n_runs=2)
    """
    alike = [part for part in parts if len(part.count) == len(parts[0].count)]
    counts = [sum(column) for column in zip(*(part.count for part in alike), strict=True)]
    means: list[list[float | None]] = []
    for rows in ([part.confidence for part in alike], [part.accuracy for part in alike]):
        sums = [_weighted([part.count[b] for part in alike], [row[b] for row in rows]) for b in range(len(counts))]
        means.append([total / n if n else None for total, n in zip(sums, counts, strict=True)])
    return Bins(tuple(counts), tuple(means[0]), tuple(means[1]), sum(part.n_runs for part in alike))


def lean(bins: Bins) -> str:
    """Say in a sentence by how much confidence and accuracy differ."""
    gap = bins.mean_confidence - bins.mean_accuracy
    word = "over-confident" if gap > 0 else "under-confident"
    return (
        f"Mean confidence {show_percent(bins.mean_confidence)}, accuracy {show_percent(bins.mean_accuracy)}: "
        f"{word} by {100 * abs(gap):.1f} points."
    )


def bin_rows(bins: Bins) -> list[tuple[str, str, str, str, str]]:
    """Write the filled bins as a table: range, count, mean confidence, accuracy and gap."""
    n = len(bins.count)
    return [
        (
            f"{100 * b / n:.0f}–{100 * (b + 1) / n:.0f} %",
            show_count(bins.count[b]),
            f"{100 * confidence:.1f}",
            f"{100 * accuracy:.1f}",
            signed(100 * (confidence - accuracy), 1),
        )
        for b, (confidence, accuracy) in enumerate(zip(bins.confidence, bins.accuracy, strict=True))
        if confidence is not None and accuracy is not None
    ]


def _weighted(count: Sequence[int], values: Sequence[float | None]) -> float:
    return sum(n * value for n, value in zip(count, values, strict=True) if value is not None)
