"""Intervals of areas under curves of ranked predictions, on scales on which their ends are far away."""

from __future__ import annotations

import math

import torch
from scipy.special import stdtrit
from torch import Generator, Tensor

from surefoot.metrics._resample import resamples
from surefoot.metrics.interval import Interval, check_level, no_interval
from surefoot.registry import METRICS

LEAST = 10  # examples of the smaller group
LEAST_WRONG = 5  # predictions


def area(name: str, confidence: Tensor, correct: Tensor, level: float) -> Interval:
    """Return the chance that a right prediction is surer than a wrong one.

    DeLong et al. 1988, on the logit scale. How each example fares against the other group varies within a group, and
    these spreads give that of the area.
    One example that fares as by guessing is added to each: a few that all fare alike would seem to have none.

    Args:
        name: The metric.
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        level: Of the interval.

    Returns:
        The interval, or none where too few are wrong, or too few are right.
    """
    check_level(level)
    right, wrong = confidence[correct.bool()].sort().values, confidence[~correct.bool()].sort().values
    least, n = min(len(right), len(wrong)), len(confidence)
    if not least:
        words = "no error" if len(right) else "no right prediction"
        return no_interval(name, math.nan, level, f"{words} among {n:,}")
    surer = share_below(wrong, right)
    estimate = surer.mean().item()
    if least < LEAST:
        what = "errors" if len(wrong) < len(right) else "right predictions"
        return no_interval(name, estimate, level, f"too few {what} ({least:,} of {n:,}) for an interval")
    variance = _variance(surer) + _variance(1 - share_below(right, wrong))
    inside = min(max(estimate, 0.5 / n), 1 - 0.5 / n)
    slope = inside * (1 - inside)
    reach = float(stdtrit(least - 1, (1 + level) / 2)) * math.sqrt(variance) / slope
    middle = math.log(inside / (1 - inside))
    low, high = (1 / (1 + math.exp(-(middle + step))) for step in (-reach, reach))
    return Interval(name, estimate, min(low, estimate), max(high, estimate), level, "delong")


def risk(confidence: Tensor, correct: Tensor, level: float, n_resamples: int, source: Generator) -> Interval:
    """Return the area under the risk-coverage curve: spread by drawing anew, on the logarithm's scale.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        level: Of the interval.
        n_resamples: How often examples are drawn.
        source: Where the randomness comes from.

    Returns:
        The interval, or none where too few are wrong.
    """
    check_level(level)
    area_of = METRICS["aurc"].facts["top"]
    n, wrong, estimate = len(confidence), int((~correct.bool()).sum()), area_of(confidence, correct).item()
    if wrong < LEAST_WRONG:
        return no_interval("aurc", estimate, level, f"too few errors ({wrong:,} of {n:,}) for an interval")
    rows = (row for block in resamples(n, n_resamples, source) for row in block)
    spread = torch.stack([area_of(confidence[row], correct[row]) for row in rows]).std().item()
    times = math.exp(float(stdtrit(wrong - 1, (1 + level) / 2)) * spread / estimate)
    return Interval("aurc", estimate, estimate / times, min(1.0, estimate * times), level, "log", n_resamples)


def share_below(ordered: Tensor, values: Tensor) -> Tensor:
    """Return the share of the ordered ones that are below each value, ties counted half."""
    both = torch.searchsorted(ordered, values) + torch.searchsorted(ordered, values, right=True)
    return both.double() / (2 * len(ordered))


def _variance(shares: Tensor) -> float:
    with_one = torch.cat([shares, shares.new_tensor([0.5])])
    return with_one.var().item() / len(shares)
