"""Augmentations, one file each: training images are changed at random, another way in every step.

An augmentation maps a whole batch at once. All that it draws comes from the generator it is given, which is a function
of seed and step: nothing is saved, and a run that goes on from a checkpoint draws what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.registry import AUGMENTATIONS
from surefoot.schema import PartSpec, Splits

Augmentation = Callable[[Tensor, Tensor, torch.Generator], Tensor]  # images, black, generator → images
Augment = Callable[[Tensor, torch.Generator], Tensor]  # the same for one data set, whose black is known


def build_augment(parts: Sequence[PartSpec], splits: Splits) -> Augment | None:
    """Make one function of several augmentations.

    Args:
        parts: What to apply, in this order.
        splits: The data; their scaling says which value is black.

    Returns:
        A function of images ``(n, channels, height, width)`` and a generator; None where there is nothing to apply.

    Raises:
        InputError: If the inputs are not images.
    """
    if not parts:
        return None
    if len(splits.input_shape) != 3:
        raise InputError(
            f"Expected images (channels, height, width) to augment, but got inputs of shape {splits.input_shape}. "
            "Leave --augment out."
        )
    made: list[Augmentation] = [AUGMENTATIONS.build(part) for part in parts]
    black = black_pixel(splits)

    def augment(images: Tensor, generator: torch.Generator) -> Tensor:
        for change in made:
            images = change(images, black.to(images), generator)
        return images

    return augment


def black_pixel(splits: Splits) -> Tensor:
    """Return what the network sees where an image is black.

    Args:
        splits: The data; images that were not scaled on loading are taken to be black at 0.

    Returns:
        One value per channel, shape ``(channels, 1, 1)``.
    """
    black = torch.zeros(1, splits.input_shape[0], 1, 1)
    return (splits.scaling.to_inputs(black) if splits.scaling else black)[0]
