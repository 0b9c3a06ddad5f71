"""Transformer blocks whose attention can be differentiated twice."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head self-attention, softmax(QKᵀ/√d)V written out.

    torch's fused kernels have no second derivative on the CPU; curvature and input gradients need one.

    Args:
        width: Of the tokens; a multiple of heads.
        heads: Number of heads.
        causal: Let a token see those before it only.
    """

    def __init__(self, width: int, heads: int, *, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return the tokens after attention.

        Args:
            x: Shape ``(n, length, width)``.
            hidden: Which tokens nobody may look at, shape ``(n, length)``.

        Returns:
            The same shape as ``x``.
        """
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, None, None, :], torch.finfo(scores.dtype).min)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, width)
        out: Tensor = self.out(mixed)
        return out


class Encoder(nn.Module):
    """A pre-norm block: attention, then two linear layers with GELU, each around a shortcut.

    Args:
        width: Of the tokens.
        heads: Of the attention.
        hidden: Width between the two linear layers.
        dropout: Probability before each sum.
        causal: Let a token see those before it only.
    """

    def __init__(self, width: int, heads: int, hidden: int, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width, eps=1e-6), Attention(width, heads, causal=causal)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return the tokens after the block; ``hidden`` tokens are not looked at."""
        x = x + self.dropout(self.attention(self.norm1(x), hidden))
        out: Tensor = x + self.dropout(self.mlp(self.norm2(x)))
        return out


def embed_init(model: nn.Module) -> nn.Module:
    """Draw linear layers, embeddings and convolutions from a normal distribution cut at two standard deviations.

    Args:
        model: Changed in place; biases become 0.

    Returns:
        The model.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]  # it is there, see above
    return model
