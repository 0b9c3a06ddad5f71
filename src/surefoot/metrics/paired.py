"""Intervals of differences between two predictions of the same examples, without drawing anew."""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
from torch import Generator, Tensor

from surefoot.metrics._binning import bin_sums
from surefoot.metrics._weights import kish, mean
from surefoot.metrics.ece_interval import ece_difference, ece_of_sums
from surefoot.metrics.interval import Interval, around, check_level
from surefoot.metrics.shares import FEW, apart

Top = tuple[Tensor, Tensor]  # confidence and correctness


def paired_share(name: str, a: Tensor, b: Tensor, level: float, weights: Tensor | None = None) -> Interval:
    """Return the difference of two shares of the same examples (Bonett and Price 2012).

    Args:
        name: The metric.
        a: 1 for a hit, else 0.
        b: The same of the other.
        level: Of the interval.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval of A − B.

    Example:
        >>> 0.0 in paired_share("accuracy", torch.ones(20), torch.ones(20), 0.95)
        True
    """
    differ = a.double() - b.double()
    estimate = mean(differ, weights).item()
    low, high = _ends(differ, 1.0, level, weights)
    ends = around(estimate, estimate - low, high - estimate, (-1.0, 1.0))
    return Interval(name, estimate, *ends, level, "exact")


def paired_gap(a: Top, b: Top, level: float, weights: Tensor | None = None, *, sign: int = -1) -> Interval:
    """Return how confidence − accuracy of two predictions differ, or, with ``sign=1``, their sum.

    Args:
        a: One.
        b: The other.
        level: Of the interval.
        weights: How much each row represents; None where all count alike.
        sign: −1 for A − B, 1 for A + B.

    Returns:
        The interval.
    """
    sure, right = (x.double() + sign * y.double() for x, y in zip(a, b, strict=True))
    estimate = mean(sure - right, weights).item()
    centred = right - (1.0 if sign > 0 else 0.0)
    low, high = _ends(centred, 1.0, level, weights)
    middle = mean(centred, weights).item()
    reach = _reach(sure, level, weights)
    # Of a handful of rows nobody knows whether they are among the unsure ones.
    rare = right != right.mode().values
    several = int(rare.sum()) if weights is None else kish(weights[rare])
    together = _correlation(sure, right, weights) if several >= FEW else 0.0
    ends = around(estimate, apart(reach, high - middle, together), apart(reach, middle - low, together), (-2.0, 2.0))
    return Interval("confidence_gap", estimate, *ends, level, "exact")


def _ends(values: Tensor, most: float, level: float, weights: Tensor | None) -> tuple[float, float]:
    """Wald's interval of a mean of whole numbers after adding the largest and the smallest of them once."""
    check_level(level)
    wide = torch.cat([values, values.new_tensor([-most, most])])
    if weights is not None:  # the added ones weigh as much as is usual
        weights = torch.cat([weights, (weights.square().sum() / weights.sum()).expand(2)])
    reach, middle = _reach(wide, level, weights), mean(wide, weights).item()
    return middle - reach, middle + reach


def _reach(values: Tensor, level: float, weights: Tensor | None) -> float:
    """Return how far a mean may be off, by the normal distribution."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    if weights is None:
        return z * values.std(correction=0).item() / math.sqrt(len(values))
    off = values - mean(values, weights)
    return z * math.sqrt((weights.square() @ off.square()).item()) / weights.sum().item()


def _correlation(x: Tensor, y: Tensor, weights: Tensor | None) -> float:
    """Correlation of the means of two rows of numbers, 0 where one of them does not vary."""
    x, y = (z.double() - mean(z.double(), weights) for z in (x, y))
    if weights is not None:
        x, y = weights * x, weights * y
    size = (x.square().sum() * y.square().sum()).sqrt().item()
    return (x @ y).item() / size if size > 0 else 0.0


def paired_ece(
    a: Top, b: Top, n_bins: int, level: float, n_resamples: int, source: Generator, weights: Tensor | None = None
) -> Interval:
    """Return the difference of two ECE of the same examples.

    Args:
        a: One.
        b: The other.
        n_bins: Number of bins.
        level: Of the interval.
        n_resamples: How often hits are drawn.
        source: Where the randomness comes from.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval of A − B.
    """
    one, other = (ece_of_sums(bin_sums(*top, n_bins, weights), level, n_resamples, source) for top in (a, b))
    return ece_difference(one, other)
