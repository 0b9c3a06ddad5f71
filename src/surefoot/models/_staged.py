"""What networks have in common: stages that run one after another, He's initialisation, checks of their inputs."""

from __future__ import annotations

from typing import Literal

from torch import nn

from surefoot.errors import InputError


class Staged(nn.Sequential):
    """A network whose children are its stages: a stem, stages of blocks, and the head that gives the logits.

    Methods that look between the stages (MIT-A, a second head) use :attr:`stages`.
    """

    @property
    def stages(self) -> list[nn.Module]:
        """The stages; running them one after another is running the network."""
        return list(self)


def he_init(model: nn.Module, mode: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Module:
    """Draw convolutions from He's normal distribution.

    Args:
        model: Changed in place; other layers keep torch's initialisation, which for BatchNorm is gain 1.
        mode: Which side of the layer keeps its variance.

    Returns:
        The model.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
    return model


def conv3x3(fan_in: int, fan_out: int, stride: int = 1) -> nn.Conv2d:
    """Make a 3×3 convolution that keeps the picture's size, or halves it with stride 2."""
    return nn.Conv2d(fan_in, fan_out, 3, stride=stride, padding=1, bias=False)


def check_images(name: str, input_shape: tuple[int, ...]) -> int:
    """Return the number of channels.

    Args:
        name: Of the network.
        input_shape: Shape of one input.

    Returns:
        The channels.

    Raises:
        InputError: If the inputs are not images.
    """
    if len(input_shape) != 3:
        raise InputError(
            f"Expected images (channels, height, width) for {name}, but got shape {input_shape}. Use --model mlp."
        )
    return input_shape[0]


def head(width: int, n_classes: int, *before: nn.Module) -> nn.Sequential:
    """Make the last stage of a convolutional network: the mean over the picture, then a linear layer.

    Args:
        width: Channels of the last maps.
        n_classes: Number of logits.
        *before: Layers before the mean.

    Returns:
        The stage.
    """
    return nn.Sequential(*before, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, n_classes))
