from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.models.resnet_cifar import Block


def test_the_padded_shortcut_takes_every_other_pixel() -> None:
    block = Block(2, 4, stride=2, shortcut="pad").eval()
    torch.nn.init.zeros_(block.norm2.weight)  # leaves the shortcut alone
    x = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 1, 1)))


def test_gradients_keep_the_order_in_memory() -> None:
    """Else every layer before it converts them."""
    seen: list[Tensor] = []
    block = Block(16, 32, stride=2, shortcut="pad").to(memory_format=torch.channels_last)
    x = torch.randn(4, 16, 8, 8).to(memory_format=torch.channels_last).requires_grad_() * 1
    x.register_hook(seen.append)
    y = block(x)
    y.backward(torch.ones_like(y))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)
