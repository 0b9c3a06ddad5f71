"""Metrics that are the mean of one value per example."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from surefoot.metrics._sums import SumsFunction


def sums_of(values: Callable[[Tensor, Tensor], Tensor]) -> SumsFunction:
    """Give the sums (total, count) behind the mean of a value per example.

    Args:
        values: Maps probabilities and labels to one float64 value per example.

    Returns:
        A function for :class:`~surefoot.metrics._sums.Stream`.
    """

    def sums(probs: Tensor, labels: Tensor) -> Tensor:
        each = values(probs, labels)
        return each.new_tensor([0.0, len(each)]) + each.new_tensor([1.0, 0.0]) * each.sum()

    return sums


def finish_mean(sums: Tensor) -> Tensor:
    """Divide the total by the count."""
    return sums[0] / sums[1]
