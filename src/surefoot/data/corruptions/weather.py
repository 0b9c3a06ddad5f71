"""Weather: snow, frost, fog."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.corruptions._colour import grey, like
from surefoot.data.corruptions._fractal import fractal
from surefoot.data.corruptions._gather import streak
from surefoot.data.corruptions._separable import separable, zoom_matrix
from surefoot.registry import CORRUPTIONS


@CORRUPTIONS.register(
    "snow",
    group="weather",
    main=True,
    rank=8,
    severities=(
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
)
def snow(x: Tensor, c: tuple[float, ...], generator: torch.Generator) -> Tensor:
    """Flakes that fall in streaks over a whitened picture: c = (mean, sd, zoom, threshold, radius, σ, mix)."""
    mean, sd, zoom, threshold, radius, sigma, mix = c
    n, _, h, w = x.shape
    flakes = mean + sd * torch.randn(n, 1, h, w, generator=generator)
    flakes = separable(flakes, zoom_matrix(h, zoom), zoom_matrix(w, zoom))
    flakes = torch.where(flakes < threshold, 0, flakes).clamp(0, 1)
    flakes = (flakes * 255).floor() / 255
    angles = torch.rand(n, generator=generator) * 90 - 135
    flakes = streak(flakes, angles, radius, sigma)
    white = torch.maximum(x, grey(x) * 1.5 + 0.5)
    return mix * x + (1 - mix) * white + flakes + flakes.flip((2, 3))


@CORRUPTIONS.register(
    "frost",
    group="weather",
    main=True,
    rank=9,
    severities=((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
)
def frost(x: Tensor, c: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Ice on the window: a x + b ice, c = (a, b). The ice is drawn here, not cut out of the published photos."""
    a, b = c
    n, _, h, w = x.shape
    return a * x + b * like(ice(n, h, w, generator), x)


def ice(n: int, h: int, w: int, generator: torch.Generator) -> Tensor:
    """Draw frosted windows.

    Rough clouds with bright veins where two fractals cross their middle, in a tint between grey and cyan. Brightness
    and contrast follow the photos behind the published files at the size they were used: means between 0.44 and 0.81,
    a standard deviation within a 32×32 crop of about 0.09.

    Args:
        n: How many.
        h: Height.
        w: Width.
        generator: Of the draws.

    Returns:
        Shape ``(n, 3, h, w)``, values in [0, 1].
    """
    rough, first, second = (fractal(n, max(h, w), decay, generator)[:, :h, :w] for decay in (1.3, 1.8, 1.8))
    veins = torch.maximum(1 - 8 * (first - 0.5).abs(), 1 - 8 * (second - 0.5).abs()).clamp(min=0)
    texture = rough + 0.6 * veins
    texture = texture - texture.mean((1, 2), keepdim=True)
    texture = 0.09 * texture / texture.std((1, 2), keepdim=True).clamp(min=1e-9)
    level, tint = torch.rand(2, n, 1, 1, 1, generator=generator, dtype=torch.float64)
    cast = torch.tensor([-0.6, 0.1, 0.5], dtype=torch.float64).view(3, 1, 1)
    shown = 0.44 + 0.37 * level + (0.05 + 0.2 * tint) * cast + texture[:, None]
    made: Tensor = shown.clamp(0, 1).float()
    return made


@CORRUPTIONS.register(
    "fog", group="weather", main=True, rank=10, severities=((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))
)
def fog(x: Tensor, c: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Fog f from a fractal: (x + a f) · m / (m + a) with m the picture's maximum; c = (a, decay)."""
    a, decay = c
    h, w = x.shape[-2:]
    top = x.amax((1, 2, 3), keepdim=True)
    clouds = fractal(len(x), max(h, w), decay, generator)[:, None, :h, :w].to(x)
    hazy: Tensor = (x + a * clouds) * (top / (top + a))
    return hazy
