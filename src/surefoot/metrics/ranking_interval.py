"""Intervals of areas under curves of ranked predictions, on scales on which their ends are far away."""

from __future__ import annotations

import math

import torch
from scipy.special import stdtrit
from torch import Generator, Tensor

from surefoot.metrics._ranking import share_below
from surefoot.metrics._resample import resamples
from surefoot.metrics._weights import kish, mean
from surefoot.metrics.interval import Interval, check_level, no_interval
from surefoot.metrics.mean_losses import too_few
from surefoot.registry import METRICS

LEAST = 10  # examples of the smaller group
LEAST_WRONG = 5  # predictions


def area(name: str, confidence: Tensor, correct: Tensor, level: float, weights: Tensor | None = None) -> Interval:
    """Return the chance that a right prediction is surer than a wrong one.

    DeLong et al. 1988, on the logit scale. How each example fares against the other group varies within a group, and
    these spreads give that of the area.
    One example that fares as by guessing is added to each: a few that all fare alike would seem to have none.

    Args:
        name: The metric.
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        level: Of the interval.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval, or none where too few are wrong, or too few are right.
    """
    check_level(level)
    hit = correct.bool()
    (right, first), (wrong, second) = confidence[hit].sort(), confidence[~hit].sort()
    of_right, of_wrong = (None, None) if weights is None else (weights[hit][first], weights[~hit][second])
    if not len(right) or not len(wrong):
        words = "no error" if len(right) else "no right prediction"
        return no_interval(name, math.nan, level, f"{words} among {len(confidence):,}")
    sizes = _size(right, of_right), _size(wrong, of_wrong)
    least, n = min(sizes), sum(sizes)
    surer = share_below(wrong, right, of_wrong)
    estimate = mean(surer, of_right).item()
    if least < LEAST:
        what = "errors" if sizes[1] < sizes[0] else "right predictions"
        return no_interval(name, estimate, level, too_few(what, least, n))
    variance = _variance(surer, of_right) + _variance(1 - share_below(right, wrong, of_right), of_wrong)
    inside = min(max(estimate, 0.5 / n), 1 - 0.5 / n)
    slope = inside * (1 - inside)
    reach = float(stdtrit(least - 1, (1 + level) / 2)) * math.sqrt(variance) / slope
    middle = math.log(inside / (1 - inside))
    low, high = (1 / (1 + math.exp(-(middle + step))) for step in (-reach, reach))
    return Interval(name, estimate, min(low, estimate), max(high, estimate), level, "delong")


def risk(
    confidence: Tensor,
    correct: Tensor,
    level: float,
    n_resamples: int,
    source: Generator,
    weights: Tensor | None = None,
) -> Interval:
    """Return the area under the risk-coverage curve: spread by drawing anew, on the logarithm's scale.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        level: Of the interval.
        n_resamples: How often examples are drawn.
        source: Where the randomness comes from.
        weights: How much each row represents; None where all count alike.

    Returns:
        The interval, or none where too few are wrong.
    """
    check_level(level)
    area_of = METRICS["aurc"].facts["top"]
    columns = (confidence, correct) if weights is None else (confidence, correct, weights)
    missed = ~correct.bool()
    wrong = _size(confidence[missed], None if weights is None else weights[missed])
    estimate = area_of(*columns).item()
    if wrong < LEAST_WRONG:
        return no_interval("aurc", estimate, level, too_few("errors", wrong, _size(confidence, weights)))
    rows = (row for block in resamples(len(confidence), n_resamples, source) for row in block)
    spread = torch.stack([area_of(*(column[row] for column in columns)) for row in rows]).std().item()
    times = math.exp(float(stdtrit(wrong - 1, (1 + level) / 2)) * spread / estimate)
    return Interval("aurc", estimate, estimate / times, min(1.0, estimate * times), level, "log", n_resamples)


def _size(values: Tensor, weights: Tensor | None) -> float:
    """Return how many there are, with weights their effective number."""
    return len(values) if weights is None else kish(weights)


def _variance(shares: Tensor, weights: Tensor | None) -> float:
    with_one = torch.cat([shares, shares.new_tensor([0.5])])
    if weights is None:
        return with_one.var().item() / len(shares)
    total = weights.sum()
    mass = torch.cat([weights, (weights.square().sum() / total)[None]])  # the added one weighs as much as is usual
    off = with_one - mean(with_one, mass)
    return (mass.square() @ off.square() / total.square()).item()
