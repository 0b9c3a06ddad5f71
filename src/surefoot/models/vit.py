"""Vision transformers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.models._staged import Staged, check_images
from surefoot.models._transformer import Encoder, embed_init
from surefoot.registry import MODELS


class Patches(nn.Module):
    """Cut a picture into patches, embed each, put a class token before them and add positions.

    Args:
        channels: Of the picture.
        length: Number of patches.
        patch: Side of a patch.
        width: Of the tokens.
    """

    def __init__(self, channels: int, length: int, patch: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(nn.init.trunc_normal_(torch.empty(1, length + 1, width), std=0.02))

    def forward(self, images: Tensor) -> Tensor:
        """Return the tokens, shape ``(n, patches + 1, width)``."""
        tokens = self.embed(images).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(images), -1, -1), tokens], 1) + self.position


class OfClassToken(nn.Module):
    """Normalise, take the class token and return its logits.

    Args:
        width: Of the tokens.
        n_classes: Number of logits.
    """

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.linear(self.norm(tokens[:, 0]))
        return logits


def make_vit(
    name: str, input_shape: tuple[int, ...], n_classes: int, *, patch: int, width: int, depth: int, heads: int
) -> nn.Module:
    """Make a vision transformer whose hidden layers are four times as wide as its tokens.

    Args:
        name: For error messages.
        input_shape: Channels, height, width of one image.
        n_classes: Number of logits.
        patch: Side of a patch.
        width: Of the tokens.
        depth: Number of blocks.
        heads: Of the attention.

    Returns:
        The network.

    Raises:
        InputError: If the picture or the width cannot be divided.
    """
    channels = check_images(name, input_shape)
    _, rows, columns = input_shape
    if min(patch, width, depth, heads) < 1 or rows % patch or columns % patch:
        raise InputError(
            f"Expected pictures whose sides are multiples of the patch for {name}, but got {rows}×{columns} and "
            f"{patch}. Resize the pictures, or use --model vit_tiny:patch=… with a divisor."
        )
    if width % heads:
        raise InputError(f"Expected width to be a multiple of heads, but got {width} and {heads}. Change one of them.")
    patches = Patches(channels, (rows // patch) * (columns // patch), patch, width)
    blocks = [Encoder(width, heads, 4 * width) for _ in range(depth)]
    return embed_init(Staged(patches, *blocks, OfClassToken(width, n_classes)))


@MODELS.register("vit_s16", example_shape=(3, 32, 32), reference="Dosovitskiy et al. 2021, arXiv:2010.11929")
def vit_s16(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """ViT-S/16: patches of 16×16, 12 blocks of width 384 with 6 heads."""
    return make_vit("vit_s16", input_shape, n_classes, patch=16, width=384, depth=12, heads=6)


@MODELS.register("vit_s32", example_shape=(3, 32, 32), reference="Dosovitskiy et al. 2021, arXiv:2010.11929")
def vit_s32(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    """ViT-S/32: patches of 32×32, 12 blocks of width 384 with 6 heads."""
    return make_vit("vit_s32", input_shape, n_classes, patch=32, width=384, depth=12, heads=6)


@MODELS.register("vit_tiny", example_shape=(3, 32, 32), reference="Dosovitskiy et al. 2021, arXiv:2010.11929")
def vit_tiny(
    input_shape: tuple[int, ...],
    n_classes: int,
    *,
    patch: int = 4,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
) -> nn.Module:
    """Tiny vision transformer for 28×28 and 32×32 pictures."""
    return make_vit("vit_tiny", input_shape, n_classes, patch=patch, width=width, depth=depth, heads=heads)
