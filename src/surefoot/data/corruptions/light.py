"""Light and colour: brightness, contrast, saturation."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.corruptions._colour import as_colour, like
from surefoot.registry import CORRUPTIONS


@CORRUPTIONS.register("brightness", group="weather", main=True, rank=11, severities=(0.05, 0.10, 0.15, 0.20, 0.30))
def brightness(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Add c to the value v = max(r, g, b) of every pixel, hue and saturation kept: x · min(v + c, 1) / v."""
    v = x.amax(1, keepdim=True)
    brighter = (v + c).clamp(max=1)
    return torch.where(v > 0, x * brighter / v.clamp(min=1e-6), brighter)


@CORRUPTIONS.register("contrast", group="digital", main=True, rank=12, severities=(0.75, 0.5, 0.4, 0.3, 0.15))
def contrast(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Draw every channel towards its mean m over the picture: c (x − m) + m."""
    mean = x.mean((2, 3), keepdim=True)
    return (x - mean) * c + mean


@CORRUPTIONS.register(
    "saturate", group="extra", main=False, rank=19, severities=((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))
)
def saturate(x: Tensor, c: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Change the saturation s of every pixel to a s + b, hue and value kept: c = (a, b).

    With v = max and s = (v − min) / v, a channel becomes v − (v − x) s′ / s. Grey pixels have no hue and count
    as red. Grey pictures are looked at as coloured ones, so that only b > 0 changes them.
    """
    a, b = c
    colour = as_colour(x)
    v = colour.amax(1, keepdim=True)
    spread = v - colour.amin(1, keepdim=True)
    s = spread / v.clamp(min=1e-6)
    wanted = (a * s + b).clamp(0, 1)
    depth = (v - colour) / spread.clamp(min=1e-6)  # 0 for the largest channel, 1 for the smallest
    red = torch.tensor([0.0, 1.0, 1.0]).view(1, 3, 1, 1)
    return like(v * (1 - wanted * torch.where(spread > 0, depth, red)), x)
