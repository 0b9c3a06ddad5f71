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

import torch
from scipy.special import stdtrit
from torch import Tensor

from surefoot.metrics._weights import worth
from surefoot.metrics.interval import Interval, around, check_level, no_interval
from surefoot.metrics.shares import exact_ends

LEAST = 5  # wrong predictions


@dataclass(frozen=True)
class Losses:
    """Losses of some examples.

    With weights, ``n`` is their effective number, ``deviation`` / √n the standard error of the mean, and ``weight`` the
    sum of weights.
    """

    n: float
    mean: float
    deviation: float
    weight: float | None = None

    @classmethod
    def of(cls, values: Tensor, weights: Tensor | None = None) -> Losses:
        """Sum values up."""
        n = len(values)
        if weights is not None:
            sums = weights.sum(), weights @ values, *(weights.square() @ values**power for power in (0, 1, 2))
            return cls.of_sums(*(each.item() for each in sums))
        return cls(n, values.mean().item() if n else 0.0, values.std().item() if n > 1 else 0.0)

    @classmethod
    def of_sums(cls, weight: float, total: float, *squares: float) -> Losses:
        """Take Σ w, Σ w x, and Σ w² xᵏ for k = 0, 1, 2."""
        if not weight > 0:
            return cls(0, 0.0, 0.0, 0.0)
        n, mean = weight**2 / squares[0], total / weight
        variance = max(0.0, squares[2] - 2 * mean * squares[1] + mean**2 * squares[0]) / weight**2
        return cls(n, mean, math.sqrt(variance * n * n / (n - 1)) if n > 1 + 1e-9 else 0.0, weight)

    def reach(self, level: float) -> float:
        """How far the mean may be off, by Student's distribution."""
        return float(stdtrit(self.n - 1, (1 + level) / 2)) * self.deviation / math.sqrt(self.n) if self.n > 1 else 0.0


def loss(
    name: str,
    each: Tensor,
    right: Tensor,
    level: float,
    limits: tuple[float, float],
    weights: Tensor | None = None,
) -> Interval:
    """Return the interval of a mean loss.

    Args:
        name: The metric.
        each: Loss per example, or its difference between two predictions.
        right: Whether the prediction (or each of both) is right.
        level: Of the interval.
        limits: Of the metric.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval, or none where too few are wrong.

    Example:
        >>> from torch import full, ones
        >>> loss("nll", full((20,), 0.1), ones(20), 0.95, (0.0, math.inf)).note
        'too few errors (0 of 20) for an interval'
    """
    each, right = each.double(), right.bool()
    of_right, of_wrong = (None, None) if weights is None else (weights[right], weights[~right])
    return loss_of_parts(name, Losses.of(each[right], of_right), Losses.of(each[~right], of_wrong), level, limits)


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
    n, rate = _effective(right, wrong)
    shares = (right, 1 - rate), (wrong, rate)
    estimate = sum(share * part.mean for part, share in shares if part.n)
    if right.weight is None:
        estimate = sum(part.n * part.mean for part in (right, wrong) if part.n) / n
    if not math.isfinite(estimate):
        return no_interval(name, estimate, level, "it is infinite")
    if not right.deviation and not wrong.deviation and right.mean == wrong.mean == 0:
        return Interval(name, 0.0, 0.0, 0.0, level, "parts")  # two predictions that do not differ anywhere
    if wrong.n < LEAST:
        return no_interval(name, estimate, level, too_few("errors", wrong.n, right.n + wrong.n))
    low, high = exact_ends(rate * n if wrong.weight else wrong.n, n, level)
    costs = wrong.mean - right.mean
    known = math.hypot((1 - rate) * right.reach(level), rate * wrong.reach(level))
    fewer, more = (rate - low, high - rate) if costs >= 0 else (high - rate, rate - low)
    ends = around(estimate, math.hypot(known, costs * fewer), math.hypot(known, costs * more), limits)
    return Interval(name, estimate, *ends, level, "parts")


def _effective(right: Losses, wrong: Losses) -> tuple[float, float]:
    """Return what the share of wrong ones is worth, in equal rows, and the share."""
    if right.weight is None or wrong.weight is None:
        n = right.n + wrong.n
        return n, wrong.n / n
    weights = torch.tensor([right.weight, wrong.weight], dtype=torch.float64)
    squares = weights.square() / torch.tensor([right.n or 1, wrong.n or 1], dtype=torch.float64)
    total = weights.sum()
    return worth(total, weights[1], squares.sum(), squares[1]).item(), (weights[1] / total).item()


def too_few(what: str, n: float, of: float) -> str:
    """Say that there are too few for an interval; with weights in effective numbers.

    Example:
        >>> too_few("errors", 3, 1200), too_few("errors", 3.25, 1200.5)
        ('too few errors (3 of 1,200) for an interval', 'too few errors (worth 3.2 of 1,200.5) for an interval')
    """
    if float(n).is_integer() and float(of).is_integer():
        return f"too few {what} ({int(n):,} of {int(of):,}) for an interval"
    return f"too few {what} (worth {n:,.1f} of {of:,.1f}) for an interval"
