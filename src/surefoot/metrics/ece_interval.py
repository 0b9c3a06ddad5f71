"""The interval of ECE: Σ |gap| of bins, whose error is of one kind at a gap of 0 and of another far from it.

At 0 noise only adds. The lower end takes each bin whose gap may be chance to be calibrated, and draws its hits from
its confidence, as the consistency test does: a bin with no error has a spread then, too. Where the test finds no fault
with the whole, the lower end is 0. The upper end takes every gap as it is, and the spread of hits from a share that
is drawn a little towards ½ (Agresti and Coull 1998). So the interval holds 0 as often as it says when
predictions are calibrated, and is on the safe side in between (after Fang and Santos 2019, arXiv:1404.3763).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from torch import Generator, Tensor

from surefoot.metrics._resample import drawn_hits
from surefoot.metrics._weights import ratio, sizes
from surefoot.metrics.interval import Interval, around, check_level
from surefoot.metrics.reliability import Consistency, consistency

_NEAR = 2.5  # standard errors from 0 within which a bin may be calibrated


def ece_of_sums(
    sums: Tensor, level: float, n_resamples: int, source: Generator, chance: Consistency | None = None
) -> Interval:
    """Return ECE with its interval.

    Args:
        sums: Shape ``(3, n_bins)``; with weights that say how much a row represents ``(7, n_bins)``.
        level: Of the interval.
        n_resamples: How often hits are drawn for the lower end.
        source: Where the randomness comes from.
        chance: The consistency test of the same bins, where it is known.

    Returns:
        The interval.
    """
    check_level(level)
    sums = sums.double()
    chance = chance or consistency(sums, n_resamples=n_resamples, level=level, generator=source)
    down = math.inf if not chance.miscalibrated else _upward(sums, level, n_resamples, source, chance)
    ends = around(chance.ece, down, _sideways(sums, chance.ece, level), (0.0, 1.0))
    return Interval("ece", chance.ece, *ends, level, "corrected", n_resamples)


def _upward(sums: Tensor, level: float, n_resamples: int, source: Generator, chance: Consistency) -> float:
    """How far noise may have lifted ECE above the truth, if bins that may be calibrated are."""
    count, confidence, correct = sums[:3].unbind()
    missing, share, size = confidence - correct, _towards_half(sums, level), sizes(sums)
    sure = ratio(confidence, count).clamp(0, 1)
    one = ratio(count, size)  # what a hit weighs
    # Within one hit too: of few examples, or at confidences near 1, nothing smaller than a whole hit can happen.
    near = missing.abs() <= one * torch.clamp(_NEAR * (size * sure * (1 - sure)).sqrt(), min=1.0)
    if bool(near.all()):
        return chance.limit
    truth, odds = missing.masked_fill(near, 0.0), torch.where(near, sure, share)
    hits = drawn_hits(sums, odds, n_resamples, source)
    lifted = (truth + count * odds - hits).abs().sum(1) - truth.abs().sum()
    return float(lifted.quantile((1 + level) / 2) / count.sum())


def _sideways(sums: Tensor, ece: float, level: float) -> float:
    """How far noise may have lowered it, if every gap has the sign that it seems to have."""
    count, confidence, correct = sums[:3].unbind()
    n, share = count.sum(), _towards_half(sums, level)
    gap = ratio(confidence - correct, count)
    if len(sums) == 3:
        of_hits = (count * share * (1 - share)).sum() / n**2
        of_counts = ((count * gap.square()).sum() / n - ece**2).clamp(min=0) / n
    else:
        of_hits = ratio(count.square() * share * (1 - share), sizes(sums)).sum() / n**2
        of_counts = (sums[3] * (gap.abs() - ece).square()).sum() / n**2
    return NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(float(of_hits + of_counts))


def _towards_half(sums: Tensor, level: float) -> Tensor:
    square, size = NormalDist().inv_cdf((1 + level) / 2) ** 2, sizes(sums)
    hits = sums[2] if len(sums) == 3 else ratio(sums[2], sums[0]) * size
    return (hits + square / 2) / (size + square)


def ece_difference(a: Interval, b: Interval) -> Interval:
    """Return the difference of two ECE of the same examples: from the one's lower to the other's upper end.

    Each interval makes up for its own bias, which does not cancel where only one of the two has it. Bias adds up and
    does not average out, so reaches are not put together as squares: the interval is rather too wide than too narrow.

    Args:
        a: One.
        b: The other.

    Returns:
        The interval of A − B.
    """
    estimate = a.estimate - b.estimate
    return Interval("ece", estimate, a.low - b.high, a.high - b.low, a.level, "corrected", a.n_resamples)
