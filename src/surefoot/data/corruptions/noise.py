"""Noise: every pixel value on its own."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.registry import CORRUPTIONS


@CORRUPTIONS.register("gaussian_noise", group="noise", main=True, rank=1, severities=(0.04, 0.06, 0.08, 0.09, 0.10))
def gaussian_noise(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Normal noise: x + c ε."""
    return x + c * _normal(x, generator)


@CORRUPTIONS.register("shot_noise", group="noise", main=True, rank=2, severities=(500, 250, 100, 75, 50))
def shot_noise(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Too little light: Poisson(c x) / c."""
    return torch.poisson(x * c, generator=generator) / c


@CORRUPTIONS.register("impulse_noise", group="noise", main=True, rank=3, severities=(0.01, 0.02, 0.03, 0.05, 0.07))
def impulse_noise(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Salt and pepper: a share c of all values becomes 0 or 1, each with the same chance."""
    hit = torch.rand(x.shape, generator=generator) < c
    salt = torch.rand(x.shape, generator=generator) < 0.5
    return torch.where(hit, salt.to(x), x)


@CORRUPTIONS.register("speckle_noise", group="noise", main=False, rank=16, severities=(0.06, 0.10, 0.12, 0.16, 0.20))
def speckle_noise(x: Tensor, c: float, generator: torch.Generator) -> Tensor:
    """Noise that grows with the light: x + c x ε."""
    return x + c * x * _normal(x, generator)


def _normal(x: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(x.shape, generator=generator, dtype=x.dtype)
