"""Residual networks for small pictures, with 16, 32 and 64 channels."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.models._staged import Staged, check_images, conv3x3, he_init, head
from surefoot.registry import MODELS

Shortcut = Literal["pad", "conv"]
WIDTHS = (16, 32, 64)


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut.

    Args:
        fan_in: Channels in.
        fan_out: Channels out.
        stride: 2 halves the picture.
        shortcut: Where the size changes, ``"pad"`` subsamples and adds zero channels (option A of the paper),
            ``"conv"`` is a 1×1 convolution with BatchNorm (option B).
    """

    def __init__(self, fan_in: int, fan_out: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.shortcut: nn.Module | None = None
        if shortcut == "conv" and fan_in != fan_out:
            project = nn.Conv2d(fan_in, fan_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(fan_out))
        self.conv1, self.norm1 = conv3x3(fan_in, fan_out, stride), nn.BatchNorm2d(fan_out)
        self.conv2, self.norm2 = conv3x3(fan_out, fan_out), nn.BatchNorm2d(fan_out)
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        if self.shortcut is not None:
            return F.relu(y + self.shortcut(x))
        added = y.shape[1] - x.shape[1]
        if not added:
            return F.relu(y + x)
        sampled = F.avg_pool2d(x, 1, self.stride)  # unlike a slice, its gradient keeps the order of x in memory
        return F.relu(y + F.pad(sampled, (0, 0, 0, 0, added // 2, added - added // 2)))


def small_resnet(name: str, input_shape: tuple[int, ...], n_classes: int, blocks: int, shortcut: Shortcut) -> nn.Module:
    """Make a residual network of depth 6·blocks + 2.

    Args:
        name: For error messages.
        input_shape: Channels, height, width of one image.
        n_classes: Number of logits.
        blocks: Per stage.
        shortcut: Where the size changes.

    Returns:
        The network.
    """
    channels = check_images(name, input_shape)
    stages: list[nn.Module] = [nn.Sequential(conv3x3(channels, WIDTHS[0]), nn.BatchNorm2d(WIDTHS[0]), nn.ReLU())]
    fan_in = WIDTHS[0]
    for width in WIDTHS:
        first = Block(fan_in, width, stride=1 if width == fan_in else 2, shortcut=shortcut)
        stages.append(nn.Sequential(first, *[Block(width, width, 1, shortcut) for _ in range(blocks - 1)]))
        fan_in = width
    return he_init(Staged(*stages, head(fan_in, n_classes)))


@MODELS.register("resnet8", reference="He et al. 2016, arXiv:1512.03385")
def resnet8(input_shape: tuple[int, ...], n_classes: int, *, shortcut: Shortcut = "pad") -> nn.Module:
    """Residual network of depth 8 for small pictures."""
    return small_resnet("resnet8", input_shape, n_classes, 1, shortcut)


@MODELS.register("resnet20", reference="He et al. 2016, arXiv:1512.03385")
def resnet20(input_shape: tuple[int, ...], n_classes: int, *, shortcut: Shortcut = "pad") -> nn.Module:
    """Residual network of depth 20 for small pictures.

    Example:
        >>> sum(p.numel() for p in resnet20((3, 32, 32), 10).parameters())
        269722
    """
    return small_resnet("resnet20", input_shape, n_classes, 3, shortcut)


@MODELS.register("resnet56", reference="He et al. 2016, arXiv:1512.03385")
def resnet56(input_shape: tuple[int, ...], n_classes: int, *, shortcut: Shortcut = "pad") -> nn.Module:
    """Residual network of depth 56 for small pictures."""
    return small_resnet("resnet56", input_shape, n_classes, 9, shortcut)


@MODELS.register("resnet110", reference="He et al. 2016, arXiv:1512.03385")
def resnet110(input_shape: tuple[int, ...], n_classes: int, *, shortcut: Shortcut = "pad") -> nn.Module:
    """Residual network of depth 110 for small pictures."""
    return small_resnet("resnet110", input_shape, n_classes, 18, shortcut)
