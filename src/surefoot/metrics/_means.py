"""Metrics that are the mean of one value per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from surefoot.metrics._input import Values
from surefoot.metrics._sums import SumsFunction
from surefoot.metrics._weights import check_weighted, mean


def sums_of(values: Callable[..., Tensor]) -> SumsFunction:
    """Return the sums (total, count) behind the mean of a value per example.

    Args:
        values: Maps probabilities, labels and options to one float64 value per example.

    Returns:
        A function for :class:`~surefoot.metrics._sums.Stream`.
    """

    def sums(probs: Tensor, labels: Tensor, weights: Tensor | None = None, **options: Any) -> Tensor:
        each = values(probs, labels, **options)
        if weights is not None:
            return torch.stack([(weights * each).sum(), weights.sum()])
        return torch.stack([each.sum(), each.new_tensor(len(each))])

    return sums


def mean_of(
    values: Callable[..., Tensor], probs: Values, labels: Values, weights: Values | None, **options: Any
) -> Tensor:
    """Check the input, and return the mean of a value per example.

    Args:
        values: Maps probabilities, labels and options to one float64 value per example.
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.
        **options: For ``values``.

    Returns:
        Scalar, float64.
    """
    rows, numbers, counts = check_weighted(probs, labels, weights)
    return mean(values(rows, numbers, **options), counts)


def finish_mean(sums: Tensor) -> Tensor:
    """Divide the total by the count."""
    return sums[0] / sums[1]
