"""Drops of water or mud on the lens."""

from __future__ import annotations

import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn import functional as F

from surefoot.data.corruptions._colour import as_colour, like
from surefoot.data.corruptions._edges import edges
from surefoot.data.corruptions._separable import filter_matrix, fold, gaussian, separable
from surefoot.registry import CORRUPTIONS

_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)
_RELIEF = ((-2.0, -1.0, 0.0), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0))  # light from one side
_THIRDS = (1 / 3, 1 / 3, 1 / 3)


@CORRUPTIONS.register(
    "spatter",
    group="extra",
    main=False,
    rank=18,
    severities=(
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1),
        (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
)
def spatter(x: Tensor, c: tuple[float, ...], generator: torch.Generator) -> Tensor:
    """Water (mild) or mud (severe) on the lens: c = (mean, sd, σ, threshold, strength or σ of the edge, is mud)."""
    mean, sd, sigma, threshold, strength, is_mud = c
    n, _, h, w = x.shape
    liquid = gaussian(mean + sd * torch.randn(n, h, w, generator=generator), sigma)
    liquid = torch.where(liquid < threshold, 0, liquid)
    colour = as_colour(x)
    if is_mud:
        cover = gaussian((liquid > threshold).to(x), strength)
        cover = torch.where(cover < 0.8, 0, cover)[:, None]
        return like(colour * (1 - cover) + cover * _paint(_MUD), x)
    drops = _gloss((liquid * 255).floor().clamp(0, 255))
    drops = strength * drops / drops.amax((1, 2), keepdim=True).clamp(min=1e-6)
    return like(colour + drops[:, None] * _paint(_WATER), x)


def _paint(colour: tuple[float, ...]) -> Tensor:
    return torch.tensor(colour).view(1, 3, 1, 1)


def _gloss(liquid: Tensor) -> Tensor:
    """Light drops from one side: a relief of the distance to their edges, evened out, times their depth."""
    shore = edges(liquid, low=50, high=150).numpy()
    # pictures lie far apart, so that none sees the edges of another
    distance = torch.from_numpy(distance_transform_edt(~shore, sampling=(1e6, 1, 1))).float().clamp(max=20)
    height = _equalised((_mean3(distance) + 1e-4).floor())
    lit = _correlate(height, torch.tensor(_RELIEF)).clamp(0, 255)
    return liquid * (_mean3(lit) + 0.5).floor()


def _mean3(x: Tensor) -> Tensor:
    h, w = x.shape[-2:]
    return separable(x, filter_matrix(h, _THIRDS, "mirror"), filter_matrix(w, _THIRDS, "mirror"))


def _correlate(x: Tensor, kernel: Tensor) -> Tensor:
    rows, columns = (fold(torch.arange(-1, size + 1), size, "mirror") for size in x.shape[-2:])
    return F.conv2d(x[:, None, rows][..., columns], kernel[None, None])[:, 0]


def _equalised(x: Tensor) -> Tensor:
    """Spread the grey levels of each picture over 0…255 by their cumulated counts, the lowest one becoming 0."""
    n, levels = len(x), x.long().flatten(1)
    counts = torch.zeros(n, 256).scatter_add_(1, levels, torch.ones(levels.shape))
    lowest = counts.gather(1, levels.amin(1, keepdim=True))
    above = counts.sum(1, keepdim=True) - lowest
    table = ((counts.cumsum(1) - lowest) * 255 / above.clamp(min=1)).round().clamp(0, 255)
    flat = torch.where(above > 0, table.gather(1, levels), levels.to(table))  # one level alone stays as it is
    return flat.view(x.shape)
