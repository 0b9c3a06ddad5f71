"""Pictures looked up at other places, each picture at its own: shifts, streaks and warps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surefoot.data.corruptions._separable import Border, fold


def pick(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Look every picture up at whole-numbered places.

    Args:
        x: Shape ``(n, channels, h, w)``.
        rows: Of the source pixel, shape ``(n, h, w)``.
        columns: Likewise.

    Returns:
        Shape of ``x``.
    """
    n, channels, h, w = x.shape
    flat = (rows * w + columns).view(n, 1, h * w).expand(n, channels, h * w)
    return x.reshape(n, channels, h * w).gather(2, flat).view(x.shape)


def places(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and column numbers of a batch's pixels, shapes ``(h, 1)`` and ``(1, w)``."""
    return torch.arange(x.shape[-2])[:, None], torch.arange(x.shape[-1])


def interpolate(x: Tensor, rows: Tensor, columns: Tensor, border: Border) -> Tensor:
    """Look every picture up between its pixels, linearly in both directions.

    Args:
        x: Shape ``(n, channels, h, w)``.
        rows: Of the source, shape ``(n, h, w)``, not whole numbers.
        columns: Likewise.
        border: What lies outside.

    Returns:
        Shape of ``x``.
    """
    h, w = x.shape[-2:]
    top, left = rows.floor(), columns.floor()
    down, right = (rows - top)[:, None].to(x), (columns - left)[:, None].to(x)
    r0, r1 = (fold(top.long() + step, h, border) for step in (0, 1))
    c0, c1 = (fold(left.long() + step, w, border) for step in (0, 1))
    above = pick(x, r0, c0) * (1 - right) + pick(x, r0, c1) * right
    below = pick(x, r1, c0) * (1 - right) + pick(x, r1, c1) * right
    return above * (1 - down) + below * down


def streak(x: Tensor, angles: Tensor, radius: float, sigma: float) -> Tensor:
    """Blur along a half line that starts at each pixel, as ImageMagick's motion blur does.

    Tap i = 0…2⌈radius⌉ weighs exp(−i²/2σ²), normalised, and reads the pixel nearest to i steps along the angle.

    Args:
        x: Shape ``(n, channels, h, w)``, values in [0, 1].
        angles: In degrees, one per picture.
        radius: Half the length, in pixels.
        sigma: How quickly the streak fades.

    Returns:
        Blurred pictures, rounded to bytes as that program leaves them.

    Example:
        >>> dot = torch.tensor([[[[0.0, 0.0, 0.0, 1.0]]]])
        >>> (streak(dot, torch.zeros(1), 6, 1.0) * 255).flatten().tolist()  # sums of taps: 3…, 2…, 1… and 0…
        [2.0, 21.0, 110.0, 255.0]
    """
    taps = torch.arange(2 * math.ceil(radius) + 1, dtype=torch.float64)
    weights = torch.exp(-(taps**2) / (2 * sigma**2))
    weights = weights / weights.sum()
    radians = torch.deg2rad(angles.double())
    rows, columns = places(x)
    total = torch.zeros_like(x)
    for tap, weight in zip(taps, weights, strict=True):
        down = torch.ceil(tap * radians.sin() - 0.5).long()[:, None, None]
        right = torch.ceil(tap * radians.cos() - 0.5).long()[:, None, None]
        moved = pick(x, fold(rows + down, x.shape[-2], "nearest"), fold(columns + right, x.shape[-1], "nearest"))
        total += weight.to(x) * moved
    return to_bytes(total)


def to_bytes(x: Tensor) -> Tensor:
    """Round to what bytes can hold, for steps that pass through a file."""
    return (x * 255).clamp(0, 255).add(0.5).floor() / 255
