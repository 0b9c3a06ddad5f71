"""PyramidNet: channels that grow a little with every block."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.models._staged import Staged, check_images, conv3x3, he_init, head
from surefoot.registry import MODELS


class Growing(nn.Module):
    """BN-conv-BN-ReLU-conv-BN around a shortcut of 2×2 mean pooling and zero channels.

    Args:
        fan_in: Channels in.
        fan_out: Channels out, not fewer.
        stride: 2 halves the picture.
    """

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        layers = [nn.BatchNorm2d(fan_in), conv3x3(fan_in, fan_out, stride), nn.BatchNorm2d(fan_out), nn.ReLU()]
        self.branch = nn.Sequential(*layers, conv3x3(fan_out, fan_out), nn.BatchNorm2d(fan_out))
        # Rounding up keeps odd sizes in step with the convolution.
        self.pool: nn.Module = nn.AvgPool2d(2, ceil_mode=True) if stride == 2 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y: Tensor = self.branch(x)
        return y + F.pad(self.pool(x), (0, 0, 0, 0, 0, y.shape[1] - x.shape[1]))


@MODELS.register("pyramidnet", reference="Han et al. 2017, arXiv:1610.02915")
def pyramidnet(input_shape: tuple[int, ...], n_classes: int, *, depth: int = 110, alpha: int = 48) -> nn.Module:
    """PyramidNet of basic blocks; alpha 48, 84 and 270 are the published sizes.

    Args:
        input_shape: Channels, height, width of one image.
        n_classes: Number of logits.
        depth: 6n + 2, with n blocks per stage.
        alpha: Channels grow from 16 to 16 + alpha, block by block.

    Returns:
        The network.

    Raises:
        InputError: If the inputs are not images or there is no network of that depth.
    """
    channels = check_images("pyramidnet", input_shape)
    if depth < 8 or (depth - 2) % 6 or alpha < 0:
        raise InputError(f"Expected depth 8, 14, …, 110 and alpha ≥ 0, but got {depth} and {alpha}. Try depth=110.")
    n = (depth - 2) // 6
    stages: list[nn.Module] = [nn.Sequential(conv3x3(channels, 16), nn.BatchNorm2d(16))]
    fan_in = 16
    for stage in range(3):
        blocks = []
        for index in range(stage * n, (stage + 1) * n):
            fan_out = round(16 + alpha * (index + 1) / (3 * n))
            blocks.append(Growing(fan_in, fan_out, stride=2 if stage and index == stage * n else 1))
            fan_in = fan_out
        stages.append(nn.Sequential(*blocks))
    return he_init(Staged(*stages, head(fan_in, n_classes, nn.BatchNorm2d(fan_in), nn.ReLU())))
