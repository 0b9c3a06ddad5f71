"""Norms and inner products over all parameters together: the one place that must know how they are spread out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

TINY = 1e-12  # added to norms that are divided by: a zero gradient climbs nowhere


def total_norm(tensors: Sequence[Tensor]) -> float:
    """Give the L2 norm of all tensors taken together, accumulated in at least float32.

    Args:
        tensors: Gradients, of any shapes, devices and floating types.

    Returns:
        The norm; NaN or infinity if an entry is.

    Example:
        >>> total_norm([torch.tensor([3.0]), torch.tensor([[0.0, 4.0]])])
        5.0
        >>> total_norm([torch.tensor([3e-30]), torch.tensor([4e-30])]) > 0
        True
    """
    total = math.sqrt(sum_of_squares(tensors))
    if 0 < total < math.inf:
        return total
    # Squares leave the range of float32 long before the numbers do: look again, more slowly.
    return math.sqrt(sum(torch.linalg.vector_norm(tensor, dtype=torch.float64).item() ** 2 for tensor in tensors))


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """Give the squared L2 norm of all tensors taken together."""
    return inner(tensors, tensors)


@torch.no_grad()
def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Give the inner product of two lists of tensors.

    Args:
        left: Tensors.
        right: Tensors of the same shapes.

    Returns:
        The sum over all entries of all products.
    """
    total = 0.0
    for a, b in zip(left, right, strict=True):
        if a.dtype in (torch.float16, torch.bfloat16):
            a, b = a.float(), b.float()
        # A dot product reads each number once and, unlike a norm, runs at the speed of memory.
        total += torch.dot(*_flat(a, b)).item()
    return total


def _flat(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """See two tensors as vectors, without copying where they lie in memory alike (channels last, for example)."""
    if a.is_contiguous() and b.is_contiguous():
        return a.view(-1), b.view(-1)
    if a.stride() == b.stride() and a.is_contiguous(memory_format=torch.channels_last):
        return a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,))
    return a.reshape(-1), b.reshape(-1)
