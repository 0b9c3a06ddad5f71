"""What a reliability diagram shows, and what it would show by chance alone if the predictions were calibrated."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from scipy.special import bdtr
from torch import Generator, Tensor

from surefoot.errors import OptionError
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._input import Values
from surefoot.metrics._resample import hits_by_chance
from surefoot.metrics._top import checked_top
from surefoot.metrics._weights import WeightsAre, rows_of, sizes, sums_as
from surefoot.seeding import generator as make_generator


@dataclass(frozen=True)
class Reliability:
    """Equal-width bins of confidence: how many examples, how sure, how right. Empty bins have None.

    ``low`` and ``high`` are consistency bars: where a bin's accuracy lies with probability ``level`` if its
    confidence is right. A bin within its bar may be off by chance; one outside is rarely.
    """

    count: list[float]
    """With weights a bin's share of them, times the number of rows."""
    confidence: list[float | None]
    accuracy: list[float | None]
    low: list[float | None]
    high: list[float | None]
    level: float

    @property
    def outside(self) -> list[int]:
        """Numbers of the bins whose accuracy is outside its bar."""
        bars = zip(self.accuracy, self.low, self.high, strict=True)
        return [m for m, (a, low, high) in enumerate(bars) if a is not None and not (low or 0) <= a <= (high or 0)]


def reliability(
    probs: Values,
    labels: Values,
    weights: Values | None = None,
    *,
    n_bins: int = 15,
    level: float = 0.95,
    weights_are: WeightsAre = "importance",
) -> Reliability:
    """Compare confidence with accuracy, bin by bin.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].
        level: How often a calibrated bin is inside its bar.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The bins, from the least to the most confident.

    Example:
        >>> from torch import tensor
        >>> reliability(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]), n_bins=2).accuracy
        [None, 0.5]

    Reference: consistency bars after Bröcker and Smith 2007.
    """
    confidence, correct, counts = checked_top(probs, labels, weights)
    sums = bin_sums(confidence, correct, n_bins, counts)
    return reliability_of_sums(sums, level=level, weights_are=weights_are)


def reliability_of_sums(sums: Tensor, *, level: float = 0.95, weights_are: WeightsAre = "importance") -> Reliability:
    """Draw the diagram from the sums of a stream, as ``Stream("ece").sums`` has them.

    The bars are quantiles of the binomial distribution of a bin's hits. Within a bin confidences differ a little,
    which makes the true spread a little narrower.

    Args:
        sums: Shape ``(3, n_bins)``: count, sum of confidence, sum of correctness; with weights ``(7, n_bins)``.
        level: How often a calibrated bin is inside its bar.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The bins.

    Raises:
        OptionError: If the level is not between 0 and 1.

    Example:
        >>> from torch import tensor
        >>> reliability_of_sums(tensor([[100.0], [50.0], [61.0]])).high  # 60 of 100 at most
        [0.6]
    """
    if not 0 < level < 1:
        raise OptionError(f"Expected a level between 0 and 1, but got {level}. 0.95 is usual.")
    sums = sums_as(sums, weights_are)
    scale = 1.0 if len(sums) == 3 else rows_of(sums) / sums[0].sum().item()
    columns: list[tuple[float, float | None, float | None, float | None, float | None]] = []
    for n, confidence, correct, size in zip(*sums[:3].tolist(), sizes(sums).tolist(), strict=True):
        if not n:
            columns.append((0, None, None, None, None))
            continue
        expected = min(1.0, max(0.0, confidence / n))
        low, high = (_hits_at(q, int(size), expected) / size for q in ((1 - level) / 2, (1 + level) / 2))
        count = int(n) if len(sums) == 3 else n * scale
        columns.append((count, confidence / n, correct / n, max(0.0, low), high))
    count, mean, accuracy, lows, highs = (list(column) for column in zip(*columns, strict=True))
    return Reliability(count, mean, accuracy, lows, highs, level)


def _hits_at(quantile: float, n: int, p: float) -> int:
    """Return the quantile of the hits of n, each with probability p: the fewest that have so much probability."""
    # By bisection: the inverse that scipy has is not a number where p is next to 0 or 1.
    return bisect_left(range(n), quantile, key=lambda hits: float(bdtr(hits, n, p)))


@dataclass(frozen=True)
class Consistency:
    """ECE beside what it would be by chance alone, if every confidence were right."""

    ece: float
    expected: float
    """Its mean if calibrated: what too few examples alone amount to."""
    limit: float
    """What it stays below with probability ``level`` if calibrated."""
    p_value: float
    """How often chance alone gives at least this ECE."""
    level: float

    @property
    def miscalibrated(self) -> bool:
        """Whether the ECE is more than chance explains."""
        return self.p_value < 1 - self.level


def consistency(
    sums: Tensor,
    *,
    n_resamples: int = 2000,
    level: float = 0.95,
    generator: Generator | None = None,
    weights_are: WeightsAre = "importance",
) -> Consistency:
    """Tell "miscalibrated" and "too few examples" apart: draw hits anew as if every bin's confidence were right.

    Args:
        sums: Shape ``(3, n_bins)``: count, sum of confidence, sum of correctness, as ``Stream("ece").sums`` has them.
        n_resamples: How often.
        level: Of the limit.
        generator: Where the randomness comes from; the same numbers each time when left out.
        weights_are: How much a row represents, or how many independent rows it stands for.

    Returns:
        The ECE and its distribution under calibration.

    Example:
        >>> from torch import tensor
        >>> consistency(tensor([[10.0], [6.0], [5.0]])).miscalibrated  # 5 right where 6 were expected
        False
        >>> consistency(tensor([[1000.0], [600.0], [500.0]])).miscalibrated
        True

    Reference: Bröcker and Smith 2007; Widmann et al. 2019, arXiv:1910.11385.
    """
    sums = sums_as(sums, weights_are)
    count, confidence, correct = sums[:3].unbind()
    n, ece = count.sum(), float((confidence - correct).abs().sum() / count.sum())
    hits = hits_by_chance(sums, n_resamples, generator or make_generator(0, "consistency"))
    by_chance = (confidence - hits).abs().sum(1) / n
    # One more on both sides: the observed one is a draw too, so that a p-value is never 0.
    p_value = (1 + int((by_chance >= ece - 1e-12).sum())) / (1 + n_resamples)
    return Consistency(ece, float(by_chance.mean()), float(by_chance.quantile(level)), p_value, level)
