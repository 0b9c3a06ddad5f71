"""Random crops."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.augment import Augmentation
from surefoot.errors import OptionError
from surefoot.registry import AUGMENTATIONS


@AUGMENTATIONS.register("crop")
def crop(*, padding: int = 4) -> Augmentation:
    """Shift each image by up to padding pixels either way; black comes in at the edges.

    Every image is framed in black and a window of its old size is cut out, at one of the (2·padding + 1)² places
    with equal probability.

    Args:
        padding: Width of the frame.

    Returns:
        The augmentation.

    Raises:
        OptionError: If the padding is negative.

    Example:
        >>> black, image = torch.zeros(1, 1, 1), torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> crop(padding=1)(image, black, torch.Generator().manual_seed(2))  # one down, one to the right
        tensor([[[[0., 0.],
                  [0., 1.]]]])
    """
    if padding < 0:
        raise OptionError(f"Expected padding ≥ 0, but got {padding}. Write crop:padding=4.")

    def apply(images: Tensor, black: Tensor, generator: torch.Generator) -> Tensor:
        n, channels, height, width = images.shape
        top, left = torch.randint(2 * padding + 1, (2, n), generator=generator).to(images.device)
        framed = black.expand(n, channels, height + 2 * padding, width + 2 * padding).clone()
        framed[:, :, padding : padding + height, padding : padding + width] = images
        windows = framed.unfold(2, height, 1).unfold(3, width, 1)  # all of them, as a view: (n, c, top, left, h, w)
        return windows[torch.arange(n, device=images.device), :, top, left]

    return apply
