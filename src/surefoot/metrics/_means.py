"""Metrics that are the mean of one value per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from surefoot.metrics._sums import SumsFunction


def sums_of(values: Callable[..., Tensor]) -> SumsFunction:
    """Return the sums (total, count) behind the mean of a value per example.

    Args:
        values: Maps probabilities, labels and options to one float64 value per example.

    Returns:
        A function for :class:`~surefoot.metrics._sums.Stream`.
    """

    def sums(probs: Tensor, labels: Tensor, **options: Any) -> Tensor:
        each = values(probs, labels, **options)
        return torch.stack([each.sum(), each.new_tensor(len(each))])

    return sums


def finish_mean(sums: Tensor) -> Tensor:
    """Divide the total by the count."""
    return sums[0] / sums[1]
