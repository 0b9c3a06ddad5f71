"""How well scores tell two groups apart: areas under curves, with ties counted half."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def area_under_roc(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the chance that a positive score exceeds a negative one, ties counted half.

    The larger group is looked up among the sorted smaller one, which is much cheaper than sorting both when one
    group is small, as in one-versus-rest with many classes.

    Args:
        positive: Scores of one group, shape ``(n,)``.
        negative: Scores of the other, shape ``(m,)``.

    Returns:
        Scalar in [0, 1], float64; NaN where a group is empty.

    Example:
        >>> area_under_roc(torch.tensor([0.9, 0.8, 0.6]), torch.tensor([0.7, 0.6]))
        tensor(0.7500, dtype=torch.float64)
    """
    if not len(positive) or not len(negative):
        return torch.tensor(math.nan, dtype=torch.float64)
    if len(positive) > len(negative):
        return 1 - area_under_roc(negative, positive)
    ordered, negative = positive.sort().values, negative.contiguous()
    # Sum of both sides: a tie is on one of them only, and so counts half.
    at_most = torch.searchsorted(ordered, negative).sum() + torch.searchsorted(ordered, negative, right=True).sum()
    return 1 - at_most.double() / (2 * len(positive) * len(negative))


def average_precision(positive: Tensor, negative: Tensor) -> Tensor:
    """Return the area under the precision-recall curve as a sum of steps, with equal scores taken together.

    Args:
        positive: Scores of the group to be found, shape ``(n,)``.
        negative: Scores of the other, shape ``(m,)``.

    Returns:
        Scalar in [0, 1], float64; NaN where there is nothing to be found.

    Example:
        >>> average_precision(torch.tensor([0.9, 0.6]), torch.tensor([0.7]))  # (1 + 2/3) / 2
        tensor(0.8333, dtype=torch.float64)
    """
    if not len(positive):
        return torch.tensor(math.nan, dtype=torch.float64)
    found = len(positive) - torch.searchsorted(positive.sort().values, positive)
    false_alarms = len(negative) - torch.searchsorted(negative.sort().values, positive.to(negative.dtype))
    return (found / (found + false_alarms).double()).mean()


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
