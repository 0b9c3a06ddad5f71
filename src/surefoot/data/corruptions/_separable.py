"""Filters and resizings that treat rows and columns alike: y = R x Cᵀ, two small matrices for a whole batch.

A picture of 32×32 needs matrices of 32×32, so writing a blur as a dense matrix costs little, and its border, which
every library treats in another way, is settled when the matrix is made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

Border = Literal["nearest", "mirror", "reflect"]


def fold(index: Tensor, n: int, border: Border) -> Tensor:
    """Bring indices outside of a line of n pixels back into it.

    Args:
        index: Whole numbers.
        n: Length of the line.
        border: ``nearest`` repeats the last pixel (aa|abc|cc), ``mirror`` reflects at it (cb|abc|ba), ``reflect``
            reflects at its outer edge (ba|abc|cb).

    Returns:
        Indices in 0…n−1.

    Example:
        >>> [fold(torch.arange(-2, 5), 3, border).tolist() for border in ("nearest", "mirror", "reflect")]
        [[0, 0, 0, 1, 2, 2, 2], [2, 1, 0, 1, 2, 1, 0], [1, 0, 0, 1, 2, 2, 1]]
    """
    if border == "nearest" or n == 1:
        return index.clamp(0, n - 1)
    period = 2 * n - 2 if border == "mirror" else 2 * n
    index = index % period
    return torch.where(index < n, index, period - index - (0 if border == "mirror" else 1))


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply R x Cᵀ to the last two dimensions."""
    return rows.to(x) @ x @ columns.to(x).T


def gaussian(x: Tensor, sigma: float, *, border: Border = "nearest", truncate: float = 4.0) -> Tensor:
    """Blur the last two dimensions by a sampled Gaussian, cut at ``truncate`` σ and normalised.

    Args:
        x: Pictures.
        sigma: Standard deviation in pixels; 0 changes nothing.
        border: What lies outside.
        truncate: Where the kernel ends.

    Returns:
        Blurred pictures.
    """
    if not sigma:
        return x
    h, w = x.shape[-2:]
    weights = _gaussian_weights(sigma, math.floor(truncate * sigma + 0.5))
    return separable(x, filter_matrix(h, weights, border), filter_matrix(w, weights, border))


def _gaussian_weights(sigma: float, radius: int) -> tuple[float, ...]:
    bell = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(-radius, radius + 1)]
    return tuple(value / sum(bell) for value in bell)


@lru_cache(maxsize=64)
def filter_matrix(n: int, weights: tuple[float, ...], border: Border) -> Tensor:
    """Write the correlation with a centred odd kernel as an n×n matrix.

    Example:
        >>> filter_matrix(3, (0.25, 0.5, 0.25), "nearest").tolist()
        [[0.75, 0.25, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]]
    """
    radius = len(weights) // 2
    matrix = torch.zeros(n, n, dtype=torch.float64)
    places = torch.arange(n)
    for offset, weight in zip(range(-radius, radius + 1), weights, strict=True):
        matrix.index_put_((places, fold(places + offset, n, border)), torch.tensor(weight).double(), accumulate=True)
    return matrix


@lru_cache(maxsize=256)
def zoom_matrix(n: int, factor: float) -> Tensor:
    """Write as an n×n matrix: cut the centre out, enlarge it with linear interpolation, trim it to n again.

    The centre has ⌈n / factor⌉ pixels; its first and last pixel become the first and last of the enlarged line.

    Example:
        >>> zoom_matrix(4, 2.0)[1].tolist()  # pixels 1 and 2 become 4 points, of which this is the second
        [0.0, 0.6666666666666667, 0.3333333333333333, 0.0]
    """
    inner = math.ceil(n / factor)
    start = (n - inner) // 2
    size = round(inner * factor)
    at = torch.arange(n, dtype=torch.float64) + (size - n) // 2
    at = at * (inner - 1) / max(size - 1, 1)
    low = at.floor().long().clamp(0, inner - 1)
    high = (low + 1).clamp(max=inner - 1)
    matrix = torch.zeros(n, n, dtype=torch.float64)
    places, share = torch.arange(n), at - low
    matrix.index_put_((places, start + low), 1 - share, accumulate=True)
    matrix.index_put_((places, start + high), share, accumulate=True)
    return matrix


@lru_cache(maxsize=64)
def box_matrix(n_in: int, n_out: int) -> Tensor:
    """Write the box resize of a line as an n_out×n_in matrix.

    A new pixel is the plain mean of the old ones whose middles lie in its window; enlarging repeats pixels.

    Example:
        >>> box_matrix(3, 2).tolist()
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    scale = n_in / n_out
    support = max(scale, 1.0)
    centre = (torch.arange(n_out, dtype=torch.float64)[:, None] + 0.5) * scale
    distance = (torch.arange(n_in, dtype=torch.float64) + 0.5 - centre) / support
    inside = ((distance > -0.5) & (distance <= 0.5)).double()
    return inside / inside.sum(1, keepdim=True)
