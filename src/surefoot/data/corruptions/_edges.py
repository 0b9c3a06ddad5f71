"""Edges by Canny's method, of many pictures at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_SLOPE = 0.4142135623730950488  # tan 22.5°


def edges(x: Tensor, *, low: float, high: float) -> Tensor:
    """Find ridges of the gradient above ``low`` that hang together with one above ``high``.

    Gradients are Sobel's, their size is |g_x| + |g_y|, and a ridge is a pixel not below its two neighbours across the
    edge, in the nearest of four directions.

    Args:
        x: Grey pictures with values in 0…255, shape ``(n, h, w)``.
        low: Threshold for going on along an edge.
        high: Threshold for starting one.

    Returns:
        True on edges, shape ``(n, h, w)``.

    Example:
        >>> step = torch.tensor([0.0, 0.0, 255.0, 255.0]).expand(1, 4, 4)
        >>> edges(step, low=50, high=150)[0, 1].tolist()
        [False, True, False, False]
    """
    size, dx, dy = _gradients(x)
    ridge = _ridges(size, dx, dy)
    weak, found = ridge & (size > low), ridge & (size > high)
    while True:
        grown = weak & (F.max_pool2d(found[:, None].float(), 3, 1, 1)[:, 0] > 0)
        if torch.equal(grown, found):
            return found
        found = grown


def _gradients(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    sobel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    padded = F.pad(x[:, None], (1, 1, 1, 1), mode="replicate")
    dx, dy = F.conv2d(padded, torch.stack([sobel, sobel.T])[:, None]).unbind(1)
    return dx.abs() + dy.abs(), dx, dy


def _ridges(size: Tensor, dx: Tensor, dy: Tensor) -> Tensor:
    h, w = size.shape[-2:]
    around = F.pad(size, (1, 1, 1, 1))

    def at(down: int, right: int) -> Tensor:
        return around[:, 1 + down : 1 + down + h, 1 + right : 1 + right + w]

    across, along = dx.abs(), dy.abs()
    is_horizontal = along < _SLOPE * across
    is_vertical = along > (_SLOPE + 2) * across  # tan 67.5° = tan 22.5° + 2
    horizontal = (size > at(0, -1)) & (size >= at(0, 1))
    vertical = (size > at(-1, 0)) & (size >= at(1, 0))
    falling = (size > at(-1, -1)) & (size > at(1, 1))
    rising = (size > at(-1, 1)) & (size > at(1, -1))
    diagonal = torch.where((dx < 0) ^ (dy < 0), rising, falling)
    return torch.where(is_horizontal, horizontal, torch.where(is_vertical, vertical, diagonal))
