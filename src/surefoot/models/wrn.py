"""Wide residual networks."""

from __future__ import annotations

from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.models._staged import Staged, check_images, conv3x3, he_init, head
from surefoot.registry import MODELS


class PreActivation(nn.Module):
    """BN-ReLU-conv-BN-ReLU-conv around a shortcut, which is a 1×1 convolution where the shape changes.

    Args:
        fan_in: Channels in.
        fan_out: Channels out.
        stride: 2 halves the picture.
        dropout: Probability between the convolutions.
    """

    def __init__(self, fan_in: int, fan_out: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.BatchNorm2d(fan_in), nn.ReLU())
        layers = [conv3x3(fan_in, fan_out, stride), nn.BatchNorm2d(fan_out), nn.ReLU(), nn.Dropout(dropout)]
        self.branch = nn.Sequential(*layers, conv3x3(fan_out, fan_out))
        self.shortcut = None
        if stride != 1 or fan_in != fan_out:
            self.shortcut = nn.Conv2d(fan_in, fan_out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output; a convolutional shortcut starts behind the first activation."""
        active = self.first(x)
        y: Tensor = self.branch(active) + (x if self.shortcut is None else self.shortcut(active))
        return y


@MODELS.register("wrn", reference="Zagoruyko & Komodakis 2016, arXiv:1605.07146")
def wrn(
    input_shape: tuple[int, ...], n_classes: int, *, depth: int = 28, width: int = 10, dropout: float = 0.0
) -> nn.Module:
    """Wide residual network, WRN-28-10 by default; wrn:depth=16,width=4 and the like are smaller.

    Args:
        input_shape: Channels, height, width of one image.
        n_classes: Number of logits.
        depth: 6n + 4, with n blocks per stage.
        width: The stages have 16, 32 and 64 times as many channels.
        dropout: Probability inside the blocks.

    Returns:
        The network.

    Raises:
        InputError: If the inputs are not images or there is no network of that depth.
    """
    channels = check_images("wrn", input_shape)
    if depth < 10 or (depth - 4) % 6 or width < 1 or not 0 <= dropout < 1:
        raise InputError(
            f"Expected depth 10, 16, 22, 28, …, width ≥ 1 and dropout in [0, 1), but got {depth}, {width} and "
            f"{dropout:g}. Try depth=28,width=10."
        )
    stages: list[nn.Module] = [conv3x3(channels, 16)]
    fan_in = 16
    for fan_out, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
        blocks = [PreActivation(fan_in, fan_out, stride, dropout)]
        blocks += [PreActivation(fan_out, fan_out, 1, dropout) for _ in range((depth - 4) // 6 - 1)]
        stages.append(nn.Sequential(*blocks))
        fan_in = fan_out
    return he_init(Staged(*stages, head(fan_in, n_classes, nn.BatchNorm2d(fan_in), nn.ReLU())))
