"""Grey pictures as coloured ones and back."""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601: how bright red, green and blue look


def as_colour(x: Tensor) -> Tensor:
    """Return a picture three channels."""
    return x if x.shape[1] == 3 else x.expand(-1, 3, -1, -1)


def grey(x: Tensor) -> Tensor:
    """Return a picture's luminance as its one channel."""
    if x.shape[1] == 1:
        return x
    return (x * torch.tensor(LUMA).to(x).view(1, 3, 1, 1)).sum(1, keepdim=True)


def like(y: Tensor, x: Tensor) -> Tensor:
    """Return a coloured picture as many channels as another has."""
    return grey(y) if x.shape[1] == 1 else y
