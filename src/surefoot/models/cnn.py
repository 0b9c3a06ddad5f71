"""A small convolutional network with BatchNorm and dropout."""

from __future__ import annotations

from torch import nn

from surefoot.errors import InputError
from surefoot.models._staged import Staged, check_images, conv3x3
from surefoot.registry import MODELS


@MODELS.register("cnn")
def cnn(input_shape: tuple[int, ...], n_classes: int, *, width: int = 16, dropout: float = 0.0) -> nn.Module:
    """Small convolutional network for images: three 3×3 stages with BatchNorm, then a mean over the picture.

    Args:
        input_shape: Channels, height, width of one image.
        n_classes: Number of logits.
        width: Channels of the first stage; the second has twice, the third four times as many.
        dropout: Probability before the last layer.

    Returns:
        The network.

    Raises:
        InputError: If the inputs are not images or an option makes no network.
    """
    channels = check_images("cnn", input_shape)
    if width < 1 or not 0 <= dropout < 1:
        raise InputError(f"Expected width ≥ 1 and dropout in [0, 1), but got {width} and {dropout:g}.")
    stages: list[nn.Module] = []
    for stage in range(3):
        out = width * 2**stage
        conv = conv3x3(channels, out, stride=1 if stage == 0 else 2)
        stages.append(nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU()))
        channels = out
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Staged(*stages, nn.Sequential(pooled, nn.Dropout(dropout), nn.Linear(channels, n_classes)))
