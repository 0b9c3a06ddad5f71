"""Random reflections."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.data.augment import Augmentation
from surefoot.errors import OptionError
from surefoot.registry import AUGMENTATIONS


@AUGMENTATIONS.register("flip")
def flip(*, p: float = 0.5) -> Augmentation:
    """Exchange left and right in each image with probability p.

    Args:
        p: The probability.

    Returns:
        The augmentation.

    Raises:
        OptionError: If p is no probability.

    Example:
        >>> flip(p=1)(torch.tensor([[[[1.0, 2.0]]]]), torch.zeros(1, 1, 1), torch.Generator())
        tensor([[[[2., 1.]]]])
    """
    if not 0 <= p <= 1:
        raise OptionError(f"Expected p between 0 and 1, but got {p:g}. Write flip:p=0.5.")

    def apply(images: Tensor, black: Tensor, generator: torch.Generator) -> Tensor:
        chosen = (torch.rand(len(images), generator=generator) < p).to(images.device)
        return torch.where(chosen[:, None, None, None], images.flip(-1), images)

    return apply
