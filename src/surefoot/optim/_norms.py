"""Norms and inner products over all parameters together: the one place that must know how they are spread out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from surefoot.optim._sharded import total

SMALL = 16_384  # numbers in a tensor
TINY = 1e-12  # added to norms that are divided by: a zero gradient climbs nowhere


def total_norm(tensors: Sequence[Tensor]) -> float:
    """Return the L2 norm of all tensors taken together, accumulated in at least float32.

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
    norm = math.sqrt(sum_of_squares(tensors))
    if 0 < norm < math.inf:
        return norm
    # Squares leave the range of float32 long before the numbers do: look again, more slowly.
    return math.sqrt(total(_squares_in_float64, tensors))


def sum_of_squares(tensors: Sequence[Tensor]) -> float:
    """Return the squared L2 norm of all tensors taken together."""
    return total(_squares, tensors)


def _squares_in_float64(tensors: Sequence[Tensor]) -> float:
    return math.fsum(torch.linalg.vector_norm(tensor, dtype=torch.float64).item() ** 2 for tensor in tensors)


def _squares(tensors: Sequence[Tensor]) -> float:
    """Sum up squares with few readings and few calls.

    A dot product runs at the speed of memory, unlike a norm on a CPU. For small tensors what counts is the number of
    calls, so they are put together first; that also makes the sum independent of where in memory they lie.
    """
    if len({(tensor.dtype, tensor.device) for tensor in tensors}) != 1 or tensors[0].element_size() < 4:
        return _inner(tensors, tensors)
    small = [tensor for tensor in tensors if tensor.numel() < SMALL]
    large = [tensor for tensor in tensors if tensor.numel() >= SMALL]
    if len(small) > 1:
        large.append(torch.cat([tensor.reshape(-1) for tensor in small]))
    else:
        large += small
    return _inner(large, large)


def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return the inner product of two lists of tensors.

    Args:
        left: Tensors.
        right: Tensors of the same shapes.

    Returns:
        The sum over all entries of all products.
    """
    return total(_inner, left, right)


def _inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    product = 0.0
    for a, b in zip(left, right, strict=True):
        if a.dtype in (torch.float16, torch.bfloat16):
            a, b = a.float(), b.float()
        product += torch.dot(*_flat(a, b)).item()
    return product


def _flat(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """See two tensors as vectors, without copying where they lie in memory alike (channels last, for example)."""
    if a.is_contiguous() and b.is_contiguous():
        vector = a.view(-1)
        return vector, vector if a is b else b.view(-1)
    if a.stride() == b.stride() and a.is_contiguous(memory_format=torch.channels_last):
        return a.as_strided((a.numel(),), (1,)), b.as_strided((b.numel(),), (1,))
    return a.reshape(-1), b.reshape(-1)
