"""Step functions of each class's probability: what histogram binning and BBQ come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._one_vs_rest import share_out
from surefoot.schema import SplitName


@dataclass(frozen=True, eq=False)
class Stepwise(Calibrator):
    """A step function of each class's probability, divided by the sum over the classes; abstract."""

    edges: Array
    values: Array
    smoothing: float
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Look each class up in its steps."""
        return share_out(step_columns(values.edges, values.values, logits.softmax(1)), logits, values.smoothing)


def padded(rows: Sequence[Array], fill: float | None = None) -> Array:
    """Stack rows of different lengths, the shorter ones filled up with ``fill`` or their last value.

    Args:
        rows: Each of shape ``(any,)`` and not empty unless there is a fill.
        fill: What to fill up with.

    Returns:
        Shape ``(rows, longest)``.

    Example:
        >>> padded([np.array([1.0]), np.array([1.0, 2.0])])
        array([[1., 1.],
               [1., 2.]])
    """
    longest = max(len(row) for row in rows)
    return np.stack([
        np.pad(row, (0, longest - len(row)), constant_values=row[-1] if fill is None else fill) for row in rows
    ])


def step_columns(edges: Tensor, values: Tensor, probs: Tensor) -> Tensor:
    """Look each probability up: value m holds on (edge m − 1, edge m].

    Args:
        edges: Inner edges of each class, ascending, shape ``(classes, m)``; padded with infinity.
        values: Shape ``(classes, m + 1)``.
        probs: Shape ``(n, classes)``.

    Returns:
        Shape ``(n, classes)``.
    """
    columns = probs.T.contiguous()
    return values.gather(1, count_below(edges, columns)).T


def count_below(edges: Tensor, columns: Tensor) -> Tensor:
    """Count the edges of its row that are below each number: ``torch.searchsorted``, also where there is none.

    ONNX and other formats have no such operator. While a network is exported, the count is found by halving instead, a
    binary digit at a time from the highest: comparisons and lookups, whose memory does not grow with the edges.

    Args:
        edges: Ascending in each row, shape ``(rows, m)``.
        columns: Shape ``(rows, n)``.

    Returns:
        Whole numbers from 0 to m, shape ``(rows, n)``.

    Example:
        >>> count_below(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0.5, 2.0, 2.5, 9.0]]))
        tensor([[0, 1, 2, 3]])
    """
    return by_halving(edges, columns) if torch.compiler.is_exporting() else torch.searchsorted(edges, columns)


def by_halving(edges: Tensor, columns: Tensor) -> Tensor:
    """Do what ``torch.searchsorted`` does with comparisons and lookups."""
    m = edges.shape[1]
    count = torch.zeros_like(columns, dtype=torch.int64)
    for digit in reversed(range(m.bit_length())):
        more = count + (1 << digit)
        is_below = edges.gather(1, (more - 1).clamp(max=m - 1)) < columns
        count = torch.where((more <= m) & is_below, more, count)
    return count
