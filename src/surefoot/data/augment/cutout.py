"""Cutout."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.augment import Augmentation
from surefoot.errors import OptionError
from surefoot.registry import AUGMENTATIONS


@AUGMENTATIONS.register("cutout")
def cutout(*, size: int = 16) -> Augmentation:
    """Wipe out a square of size × size pixels around a random one; what lies beyond the edge is lost.

    The square is set to 0, which is the mean of standardised inputs, so that it moves no batch statistics: this is
    what its authors do. They use 16 for CIFAR-10, 8 for CIFAR-100 and 20 for SVHN (DeVries & Taylor 2017,
    arXiv:1708.04552).

    Args:
        size: Side of the square.

    Returns:
        The augmentation.

    Raises:
        OptionError: If the size is negative.

    Example:
        >>> image = torch.ones(1, 1, 1, 4)
        >>> cutout(size=2)(image, torch.zeros(1, 1, 1), torch.Generator().manual_seed(4))
        tensor([[[[1., 0., 0., 1.]]]])
    """
    if size < 0:
        raise OptionError(f"Expected size ≥ 0, but got {size}. Write cutout:size=16.")

    def apply(images: Tensor, black: Tensor, generator: torch.Generator) -> Tensor:
        rows, columns = (_within(length, size, len(images), generator) for length in images.shape[-2:])
        square = rows[:, None, :, None] & columns[:, None, None, :]
        return images.masked_fill(square.to(images.device), 0.0)

    return apply


def _within(length: int, size: int, n: int, generator: torch.Generator) -> Tensor:
    """Return which of ``length`` places lie in an interval around a random one, shape ``(n, length)``."""
    first = torch.randint(length, (n, 1), generator=generator) - size // 2
    places = torch.arange(length)
    return (first <= places) & (places < first + size)
