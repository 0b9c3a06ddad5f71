"""Blur: of a lens, of frosted glass, of motion, of zooming in."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.data.corruptions._gather import pick, places, streak
from surefoot.data.corruptions._separable import fold, gaussian, separable, zoom_matrix
from surefoot.registry import CORRUPTIONS


@CORRUPTIONS.register(
    "defocus_blur",
    group="blur",
    main=True,
    rank=4,
    severities=((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
)
def defocus_blur(x: Tensor, c: tuple[float, float], generator: torch.Generator) -> Tensor:
    """A lens out of focus: c = (radius of the disk, σ that softens its edge)."""
    kernel = disk(*c).to(x)
    h, w = x.shape[-2:]
    reach = len(kernel) // 2
    rows, columns = (fold(torch.arange(-reach, size + reach), size, "mirror") for size in (h, w))
    padded = x[:, :, rows][:, :, :, columns]
    return F.conv2d(padded.reshape(-1, 1, h + 2 * reach, w + 2 * reach), kernel[None, None]).view(x.shape)


def disk(radius: float, sigma: float) -> Tensor:
    """Make the kernel: grid points within a radius, softened by a 3×3 Gaussian.

    Example:
        >>> disk(0.3, 0.4)[1:4, 1:4].round(decimals=4).tolist()  # the disk is one pixel, so this is the Gaussian
        [[0.0016, 0.0371, 0.0016], [0.0371, 0.845, 0.0371], [0.0016, 0.0371, 0.0016]]
    """
    reach = math.floor(radius) + 2
    line = torch.arange(-reach, reach + 1, dtype=torch.float64)
    inside = (line[:, None] ** 2 + line**2 <= radius**2).double()
    bell = torch.exp(-(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64) ** 2) / (2 * sigma**2))
    bell = bell / bell.sum()
    soft = F.conv2d(inside[None, None], (bell[:, None] * bell)[None, None], padding=1)[0, 0]
    return soft / soft.sum()


@CORRUPTIONS.register(
    "glass_blur",
    group="blur",
    main=True,
    rank=5,
    severities=((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
)
def glass_blur(x: Tensor, c: tuple[float, int, int], generator: torch.Generator) -> Tensor:
    """Behind frosted glass: blur, move pixels by up to d, blur again; c = (σ, d, how often).

    The published files were made by exchanging pixels through views of one array, so that one pixel is copied over the
    other instead. As offsets are −1 or 0 and the walk goes from the last pixel to the first, every copy reads a pixel
    that has not been written yet: all of them can be made at once.
    """
    sigma, d, times = c
    x = (gaussian(x, sigma) * 255 + 1e-3).floor() / 255
    h, w = x.shape[-2:]
    rows, columns = places(x)
    moving = (rows > d) & (rows <= h - d) & (columns > d) & (columns <= w - d)
    for _ in range(times):
        right, down = (torch.randint(-d, d, (len(x), h, w), generator=generator) * moving for _ in range(2))
        x = pick(x, rows + down, columns + right)
    return gaussian(x, sigma)


@CORRUPTIONS.register(
    "motion_blur", group="blur", main=True, rank=6, severities=((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))
)
def motion_blur(x: Tensor, c: tuple[float, float], generator: torch.Generator) -> Tensor:
    """A moving camera, each picture in its own direction between −45° and 45°: c = (radius, σ)."""
    return streak(x, torch.rand(len(x), generator=generator) * 90 - 45, *c)


# How many steps of 0.01 from 1. The published ranges end at 1.06, 1.11, 1.16, 1.21 and 1.26 exclusively, but the first
# two hold their end, for 1.06 − 1 is a little more than six steps in binary.
@CORRUPTIONS.register("zoom_blur", group="blur", main=True, rank=7, severities=(7, 12, 16, 21, 26))
def zoom_blur(x: Tensor, c: int, generator: torch.Generator) -> Tensor:
    """A moving zoom: the mean of the picture and its c enlargements by 1, 1.01, 1.02 and so on."""
    h, w = x.shape[-2:]
    total = x.clone()
    for step in range(c):
        factor = 1 + (1.01 - 1) * step  # in binary 1.25 comes out a trifle larger, and its enlargement a pixel wider
        total += separable(x, zoom_matrix(h, factor), zoom_matrix(w, factor))
    return total / (c + 1)


@CORRUPTIONS.register("gaussian_blur", group="blur", main=False, rank=17, severities=(0.4, 0.6, 0.7, 0.8, 1.0))
def gaussian_blur(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """A Gaussian of standard deviation c pixels."""
    return gaussian(x, c)
