"""A small convolutional network with BatchNorm and dropout."""

from __future__ import annotations

from torch import nn

from surefoot.errors import InputError
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
    if len(input_shape) != 3:
        raise InputError(
            f"Expected images (channels, height, width) for cnn, but got shape {input_shape}. Use --model mlp."
        )
    if width < 1 or not 0 <= dropout < 1:
        raise InputError(f"Expected width ≥ 1 and dropout in [0, 1), but got {width} and {dropout:g}.")
    layers: list[nn.Module] = []
    channels = input_shape[0]
    for stage in range(3):
        out = width * 2**stage
        layers += [nn.Conv2d(channels, out, 3, stride=1 if stage == 0 else 2, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(out), nn.ReLU()]
        channels = out
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels, n_classes)
    )
