"""Intervals of shares, and of mean confidence less a share, that hold also where all or none are right.

Drawing anew from examples that are all right gives nothing but right ones: an interval of no width. A share gets the
exact interval of Clopper and Pearson (1934). What a share is a part of is put together from the ends of its
parts, each as far from its estimate as it is (MOVER, Zou and Donner 2008).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from scipy.special import betaincinv
from torch import Tensor

from surefoot.metrics._weights import ratio, worth
from surefoot.metrics.interval import Interval, around, check_level

_GAPS = (-1.0, 1.0)
FEW = 5  # errors


def exact_ends(hits: float, n: float, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share: holds the truth at least as often as it says, for any n.

    Args:
        hits: How many of them.
        n: Of how many, or what they are worth; need not be whole.
        level: How often such intervals hold the truth.

    Returns:
        Both ends.

    Example:
        >>> [round(end, 3) for end in exact_ends(10, 10, 0.95)]  # 0.025 ** (1 / 10)
        [0.692, 1.0]
    """
    check_level(level)
    tail = (1 - level) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def share(name: str, each: Tensor, level: float, weights: Tensor | None = None) -> Interval:
    """Return the interval of a share.

    Args:
        name: The metric.
        each: 1 for a hit, else 0.
        level: Of the interval.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval.
    """
    each = each.double()
    if weights is not None:
        squares = weights.square()
        return _weighted_share(name, (weights, weights * each, squares, squares * each), level)
    hits, n = each.sum().item(), len(each)
    return Interval(name, hits / n, *exact_ends(hits, n, level), level, "exact")


def accuracy_of_sums(sums: Tensor, level: float) -> Interval:
    """Return the accuracy from bins of shape ``(3, n_bins)``, or with weights ``(7, n_bins)``."""
    sums = sums.double()
    if len(sums) > 3:
        return _weighted_share("accuracy", (sums[0], *sums[2:5]), level)
    n, _, hits = sums.sum(1).tolist()
    return Interval("accuracy", hits / n, *exact_ends(hits, n, level), level, "exact")


def _weighted_share(name: str, parts: tuple[Tensor, ...], level: float) -> Interval:
    """Take as many equal rows as the share is worth: Korn and Graubard's interval."""
    totals = tuple(part.sum() for part in parts)
    rate, n = (totals[1] / totals[0]).clamp(max=1).item(), worth(*totals).item()
    return Interval(name, rate, *exact_ends(rate * n, n, level), level, "exact")


def gap(confidence: Tensor, correct: Tensor, level: float, weights: Tensor | None = None) -> Interval:
    """Return mean confidence less accuracy.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        level: Of the interval.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval.

    Example:
        >>> all_right = gap(torch.full((20,), 0.99), torch.ones(20), 0.95)
        >>> 0.0 in all_right  # with 20 examples, 99 % sure and always right is no fault
        True
    """
    confidence, correct = confidence.double(), correct.double()
    if weights is not None:
        squares = weights.square()
        return _weighted_gap(weights, confidence, correct, squares, squares * correct, level)
    return _gap(torch.ones(len(confidence), dtype=torch.float64), confidence, correct, level)


def gap_of_sums(sums: Tensor, level: float) -> Interval:
    """Return mean confidence less accuracy from sums of bins, with each confidence at its bin's mean.

    That leaves out how confidences within a bin differ, which for calibrated predictions makes the interval a little
    wider than it had to be.
    """
    sums = sums.double()
    count, confidence, correct = sums[:3].unbind()
    sure, right = ratio(confidence, count), ratio(correct, count)
    if len(sums) > 3:
        return _weighted_gap(count, sure, right, sums[3], sums[4], level)
    return _gap(count, sure, right, level)


def _weighted_gap(
    count: Tensor, confidence: Tensor, correct: Tensor, squares: Tensor, of_hits: Tensor, level: float
) -> Interval:
    """Do the same where rows represent more or less: variances of weighted means, and the share's effective number."""
    total = count.sum()
    sure, right = (count @ confidence / total).item(), min(1.0, (count @ correct / total).item())
    n = worth(total, count @ correct, squares.sum(), of_hits.sum()).item()
    off = confidence - sure
    variance = (squares @ off.square() / total.square()).item()
    joint = (off @ (of_hits - right * squares) / total.square()).item()
    of_share = (of_hits.sum() * (1 - right) ** 2 + (squares - of_hits).sum() * right**2) / total.square()
    spread = math.sqrt(max(0.0, variance * of_share.item()))
    enough = min(right * n, n - right * n) >= FEW and spread > 0
    together = max(-1.0, min(1.0, joint / spread)) if enough else 0.0
    low, high = exact_ends(right * n, n, level)
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    ends = around(sure - right, apart(reach, high - right, together), apart(reach, right - low, together), _GAPS)
    return Interval("confidence_gap", sure - right, *ends, level, "exact")


def _gap(weight: Tensor, confidence: Tensor, correct: Tensor, level: float) -> Interval:
    """Weighted rows, or bins of them: what is right is 0 or 1 whatever the bin, so only its mean is taken from it."""
    n = weight.sum()
    sure, right = (weight @ confidence / n).item(), (weight @ correct / n).item()
    variance = (weight @ (confidence - sure).square() / n).item()
    joint = (weight @ ((confidence - sure) * (correct - right)) / n).item()
    spread = math.sqrt(variance * right * (1 - right)) if 0 < right < 1 else 0.0
    hits = (weight @ correct).item()
    # Of a handful of errors nobody knows whether they are among the unsure ones.
    enough = min(hits, n.item() - hits) >= FEW and spread > 0
    together = max(-1.0, min(1.0, joint / spread)) if enough else 0.0
    low, high = exact_ends(hits, n.item(), level)
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance / n.item())
    ends = around(sure - right, apart(reach, high - right, together), apart(reach, right - low, together), _GAPS)
    return Interval("confidence_gap", sure - right, *ends, level, "exact")


def apart(one: float, other: float, together: float) -> float:
    """How far the difference of two estimates reaches, from how far each does and their correlation.

    Args:
        one: Reach of the first.
        other: Reach of the second, in the opposite direction.
        together: Correlation of the two.

    Returns:
        The reach.

    Example:
        >>> apart(3.0, 4.0, 0.0), apart(3.0, 4.0, -1.0), apart(4.0, 4.0, 1.0)
        (5.0, 7.0, 0.0)
    """
    return math.sqrt(max(0.0, one * one - 2 * together * one * other + other * other))
