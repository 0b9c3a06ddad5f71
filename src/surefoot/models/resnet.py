"""ResNet-18 and ResNet-50."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from surefoot.models._staged import Staged, check_images, conv3x3, he_init, head
from surefoot.registry import MODELS

Stem = Literal["small", "imagenet"]
WIDTHS = (64, 128, 256, 512)


class Residual(nn.Module):
    """A branch around a shortcut; where the shape changes, the shortcut is a 1×1 convolution with BatchNorm.

    Args:
        branch: The layers.
        fan_in: Channels in.
        fan_out: Channels out.
        stride: Of the branch as a whole.
    """

    def __init__(self, branch: nn.Module, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or fan_in != fan_out:
            project = nn.Conv2d(fan_in, fan_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(fan_out))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y: Tensor = self.branch(x) + self.shortcut(x)
        return y.relu()


def basic(fan_in: int, width: int, stride: int) -> Residual:
    """Make a block of two 3×3 convolutions."""
    layers = [conv3x3(fan_in, width, stride), nn.BatchNorm2d(width), nn.ReLU(), conv3x3(width, width)]
    return Residual(nn.Sequential(*layers, nn.BatchNorm2d(width)), fan_in, width, stride)


def bottleneck(fan_in: int, width: int, stride: int) -> Residual:
    """Make a block of 1×1, 3×3 and 1×1 convolutions, four times as wide outside as inside."""
    layers: list[nn.Module] = [nn.Conv2d(fan_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [conv3x3(width, width, stride), nn.BatchNorm2d(width), nn.ReLU()]
    layers += [nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)]
    return Residual(nn.Sequential(*layers), fan_in, 4 * width, stride)


def make_stem(kind: Stem, channels: int) -> nn.Sequential:
    """Make the first stage: 3×3 for small pictures, or 7×7 with stride 2 and max-pooling."""
    if kind == "small":
        return nn.Sequential(conv3x3(channels, 64), nn.BatchNorm2d(64), nn.ReLU())
    wide = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
    return nn.Sequential(wide, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))


def assemble(stem: nn.Module, blocks: Sequence[int], n_classes: int, *, deep: bool) -> nn.Module:
    """Put four stages of blocks behind a stem.

    Args:
        stem: The first stage.
        blocks: Per stage.
        n_classes: Number of logits.
        deep: Use bottleneck blocks.

    Returns:
        The network.
    """
    make = bottleneck if deep else basic
    fan_in, stages = 64, [stem]
    for width, count in zip(WIDTHS, blocks, strict=True):
        stage = []
        for index in range(count):
            stage.append(make(fan_in, width, stride=2 if index == 0 and width != 64 else 1))
            fan_in = width * (4 if deep else 1)
        stages.append(nn.Sequential(*stage))
    return he_init(Staged(*stages, head(fan_in, n_classes)))


@MODELS.register("resnet18", reference="He et al. 2016, arXiv:1512.03385")
def resnet18(input_shape: tuple[int, ...], n_classes: int, *, stem: Stem = "small") -> nn.Module:
    """ResNet-18; stem=small for 32×32 and 64×64 pictures, stem=imagenet for large ones."""
    channels = check_images("resnet18", input_shape)
    return assemble(make_stem(stem, channels), (2, 2, 2, 2), n_classes, deep=False)


@MODELS.register("resnet50", reference="He et al. 2016, arXiv:1512.03385")
def resnet50(input_shape: tuple[int, ...], n_classes: int, *, stem: Stem = "imagenet") -> nn.Module:
    """ResNet-50; stem=imagenet for large pictures, stem=small for 32×32 and 64×64 ones."""
    channels = check_images("resnet50", input_shape)
    return assemble(make_stem(stem, channels), (3, 4, 6, 3), n_classes, deep=True)
