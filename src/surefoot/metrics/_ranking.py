"""How well scores tell two groups apart: areas under curves, with ties counted half."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def two_groups(scores: Tensor, positive: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the chance that a positive score exceeds another one, ties counted half.

    Args:
        scores: Shape ``(n,)``.
        positive: Where a score is a positive one, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; NaN where a group is empty.
    """
    if weights is None:
        return area_under_roc(scores[positive], scores[~positive])
    return area_under_roc(scores[positive], scores[~positive], (weights[positive], weights[~positive]))


def area_under_roc(positive: Tensor, negative: Tensor, weights: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Return the chance that a positive score exceeds a negative one, ties counted half.

    The larger group is looked up among the sorted smaller one, which is much cheaper than sorting both when one
    group is small, as in one-versus-rest with many classes.

    Args:
        positive: Scores of one group, shape ``(n,)``.
        negative: Scores of the other, shape ``(m,)``.
        weights: How much each of both counts; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; NaN where a group is empty.

    Example:
        >>> area_under_roc(torch.tensor([0.9, 0.8, 0.6]), torch.tensor([0.7, 0.6]))
        tensor(0.7500, dtype=torch.float64)
    """
    if not len(positive) or not len(negative):
        return torch.tensor(math.nan, dtype=torch.float64)
    if weights is not None:
        return (weights[0] @ share_below(negative, positive, weights[1])) / weights[0].sum()
    if len(positive) > len(negative):
        return 1 - area_under_roc(negative, positive)
    ordered, negative = positive.sort().values, negative.contiguous()
    # Sum of both sides: a tie is on one of them only, and so counts half.
    at_most = torch.searchsorted(ordered, negative).sum() + torch.searchsorted(ordered, negative, right=True).sum()
    return 1 - at_most.double() / (2 * len(positive) * len(negative))


def share_below(others: Tensor, values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the share of the others that are below each value, ties counted half.

    Args:
        others: What to compare with, shape ``(m,)``.
        values: Shape ``(n,)``.
        weights: How much each of the others counts; None where all count alike.

    Returns:
        Shape ``(n,)``, float64.

    Example:
        >>> share_below(torch.tensor([0.1, 0.5]), torch.tensor([0.5, 0.6]))
        tensor([0.7500, 1.0000], dtype=torch.float64)
    """
    ordered, order = others.sort()
    left, right = torch.searchsorted(ordered, values), torch.searchsorted(ordered, values, right=True)
    if weights is None:
        return (left + right).double() / (2 * len(ordered))
    filled = torch.cat([weights.new_zeros(1), weights[order].cumsum(0)])
    return (filled[left] + filled[right]) / (2 * filled[-1])


def average_precision(positive: Tensor, negative: Tensor, weights: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Return the area under the precision-recall curve as a sum of steps, with equal scores taken together.

    Args:
        positive: Scores of the group to be found, shape ``(n,)``.
        negative: Scores of the other, shape ``(m,)``.
        weights: How much each of both counts; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; NaN where there is nothing to be found.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.6]), torch.tensor([0.7]))  # (1 + 2/3) / 2
        tensor(0.8333, dtype=torch.float64)
    """
    if not len(positive):
        return torch.tensor(math.nan, dtype=torch.float64)
    if weights is not None:
        found, false_alarms = (
            _at_least(scores, positive, of_scores)
            for scores, of_scores in zip((positive, negative), weights, strict=True)
        )
        return (weights[0] @ (found / (found + false_alarms))) / weights[0].sum()
    found = len(positive) - torch.searchsorted(positive.sort().values, positive)
    false_alarms = len(negative) - torch.searchsorted(negative.sort().values, positive.to(negative.dtype))
    return (found / (found + false_alarms).double()).mean()


def _at_least(scores: Tensor, values: Tensor, weights: Tensor) -> Tensor:
    """Return the weight of the scores that are not below each value."""
    ordered, order = scores.sort()
    above = weights[order].flip(0).cumsum(0).flip(0)
    return torch.cat([above, above.new_zeros(1)])[torch.searchsorted(ordered, values.to(scores.dtype))]


def false_positive_rate(positive: Tensor, negative: Tensor, *, recall: float = 0.95) -> Tensor:
    """Return the share of negatives accepted by the strictest threshold that accepts a share ``recall`` of positives.

    Args:
        positive: Scores of the group to be accepted, shape ``(n,)``.
        negative: Scores of the other, shape ``(m,)``.
        recall: How many positives must be accepted.

    Returns:
        Scalar in [0, 1], float64; NaN where a group is empty.

    Example:
        >>> false_positive_rate(torch.tensor([0.9, 0.8, 0.6]), torch.tensor([0.7, 0.5]))  # threshold .6
        tensor(0.5000, dtype=torch.float64)
    """
    if not len(positive) or not len(negative):
        return torch.tensor(math.nan, dtype=torch.float64)
    # Less a hair: 0.95 · 20 must be 19, not 19.000000000000004 rounded up.
    needed = max(1, math.ceil(recall * len(positive) - 1e-9))
    threshold = positive.sort(descending=True).values[needed - 1]
    return (negative >= threshold).double().mean()
