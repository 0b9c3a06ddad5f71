r"""Intervals of mean losses: what a wrong prediction costs, times how rare it is.

A mean NLL or Brier score comes mostly from the few wrong predictions. With a handful of them, neither the normal
distribution nor drawing anew knows how far it may be off: both take their number for known. So right and wrong ones are
taken apart,

.. math:: \bar x = \bar x_0 + e (\bar x_1 - \bar x_0)

with e the share of wrong ones: it gets its exact interval, the mean of wrong ones Student's, and the reaches add up
as squares. Below ``LEAST`` wrong ones there is no interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import stdtrit
from torch import Tensor

from surefoot.metrics.interval import Interval, around, check_level, no_interval
from surefoot.metrics.shares import exact_ends

LEAST = 5  # wrong predictions


@dataclass(frozen=True)
class Losses:
    """Losses of some examples."""

    n: int
    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Tensor) -> Losses:
        """Sum values up."""
        n = len(values)
        return cls(n, values.mean().item() if n else 0.0, values.std().item() if n > 1 else 0.0)

    def reach(self, level: float) -> float:
        """How far the mean may be off, by Student's distribution."""
        return float(stdtrit(self.n - 1, (1 + level) / 2)) * self.deviation / math.sqrt(self.n) if self.n > 1 else 0.0


def loss(name: str, each: Tensor, right: Tensor, level: float, limits: tuple[float, float]) -> Interval:
    """Return the interval of a mean loss.

    Args:
        name: The metric.
        each: Loss per example, or its difference between two predictions.
        right: Whether the prediction (or each of both) is right.
        level: Of the interval.
        limits: Of the metric.

    Returns:
        The interval, or none where too few are wrong.

    Example:
        >>> from torch import full, ones
        >>> loss("nll", full((20,), 0.1), ones(20), 0.95, (0.0, math.inf)).note
        'too few errors (0 of 20) for an interval'
    """
    each, right = each.double(), right.bool()
    return loss_of_parts(name, Losses.of(each[right]), Losses.of(each[~right]), level, limits)


def loss_of_parts(name: str, right: Losses, wrong: Losses, level: float, limits: tuple[float, float]) -> Interval:
    """Do the same from the losses of right and of wrong predictions.

    Args:
        name: The metric.
        right: Losses of right predictions.
        wrong: Losses of wrong ones.
        level: Of the interval.
        limits: Of the metric.

    Returns:
        The interval, or none where too few are wrong, or one of them cost infinitely much.
    """
    check_level(level)
    n = right.n + wrong.n
    rate = wrong.n / n
    estimate = sum(part.n * part.mean for part in (right, wrong) if part.n) / n
    if not math.isfinite(estimate):
        return no_interval(name, estimate, level, "it is infinite")
    if not right.deviation and not wrong.deviation and right.mean == wrong.mean == 0:
        return Interval(name, 0.0, 0.0, 0.0, level, "parts")  # two predictions that do not differ anywhere
    if wrong.n < LEAST:
        return no_interval(name, estimate, level, f"too few errors ({wrong.n:,} of {n:,}) for an interval")
    low, high = exact_ends(wrong.n, n, level)
    costs = wrong.mean - right.mean
    known = math.hypot((1 - rate) * right.reach(level), rate * wrong.reach(level))
    fewer, more = (rate - low, high - rate) if costs >= 0 else (high - rate, rate - low)
    ends = around(estimate, math.hypot(known, costs * fewer), math.hypot(known, costs * more), limits)
    return Interval(name, estimate, *ends, level, "parts")
