"""Out-of-distribution inputs: other data sets, and synthetic pictures that need none."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.data import load_splits
from surefoot.data.corruptions._colour import as_colour, grey
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits


def uniform(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw every pixel value with the same chance."""
    return torch.randint(0, 256, pixels.shape, generator=generator, dtype=torch.uint8)


def shuffled(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """Put the pixels of every picture into an order of its own: the same colours, nothing to be seen."""
    flat = pixels.flatten(2)
    order = torch.rand(len(flat), 1, flat.shape[2], generator=generator).argsort(2)
    return flat.gather(2, order.expand_as(flat)).view(pixels.shape)


SYNTHETIC: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {"uniform": uniform, "shuffled": shuffled}


def ood_pixels(name: str, pixels: Tensor, own: Splits, generator: torch.Generator) -> Tensor:
    """Return out-of-distribution pictures, in the size and with the channels of those trained on.

    Args:
        name: ``uniform``, ``shuffled``, or any data set of pictures, of which test examples are drawn.
        pixels: In-distribution pictures as bytes, shape ``(n, channels, h, w)``.
        own: The data set they are from, which ``name`` must not be.
        generator: Of the draws.

    Returns:
        Bytes; as many pictures as given, or all that the other data set has.

    Raises:
        InputError: If the other data set holds no pictures, or is the same.
    """
    if name in SYNTHETIC:
        return SYNTHETIC[name](pixels, generator)
    if name not in DATA and ":" not in name:
        raise InputError(
            f"Expected {' or '.join(SYNTHETIC)}, or a data set, as out-of-distribution data, but got {name!r}. "
            "Run `surefoot list data` to see all."
        )
    other = load_splits(DATA.parse(name))
    if other.fingerprint == own.fingerprint:
        raise InputError(f"Expected another data set than the one trained on, but got {name} itself. Choose another.")
    if other.scaling is None or not other.scaling.is_pixels or other.test.inputs.ndim != 4:
        raise InputError(
            f"Expected pictures as bytes, but {name} holds {other.input_shape}. Choose a data set of pictures."
        )
    rows = torch.randperm(len(other.test), generator=generator)[: len(pixels)].sort().values
    return _fitted(other.scaling.to_pixels(other.test.inputs[rows]), pixels.shape[1], *pixels.shape[2:])


def _fitted(pixels: Tensor, channels: int, h: int, w: int) -> Tensor:
    """Change number of channels and size."""
    pixels = grey(pixels) if channels == 1 else as_colour(pixels)
    if tuple(pixels.shape[2:]) != (h, w):
        pixels = F.interpolate(pixels, (h, w), mode="bilinear", antialias=True, align_corners=False)
    return pixels.round().clamp(0, 255).to(torch.uint8)
