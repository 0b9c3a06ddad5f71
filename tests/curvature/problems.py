"""Tiny float64 problems of every kind of network that the operators must handle."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Problem = tuple[nn.Module, Tensor, Tensor]


class Tied(nn.Module):
    """One matrix used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.again = nn.Linear(4, 4)
        self.again.weight = self.inner.weight
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.again(self.inner(x).tanh()).tanh())


class Shared(nn.Module):
    """One convolution under two names, used twice, and once more in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 1, 3, padding=1)
        self.again = self.first
        self.listed = nn.ModuleList([self.first, nn.Linear(9, 3)])

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.again(self.first(x.unflatten(1, (1, 3, 3))).tanh()).tanh()
        return self.listed[1](self.listed[0](hidden).flatten(1))


class Squashed(nn.Module):
    """A parametrization: weights between −1 and 1."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight.tanh()


def _parametrized() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    nn.utils.parametrize.register_parametrization(model[0], "weight", Squashed())
    return model


class Attention(nn.Module):
    """Scaled dot-product attention, whose fused kernel has no second derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.1, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x.unflatten(1, (2, 4))).mean(1))


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), 4),
    "relu": (lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), 4),
    "batchnorm": (
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3)),
        4,
    ),
    "conv": (
        lambda: nn.Sequential(
            nn.Unflatten(1, (1, 3, 3)), nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.GELU(), nn.Flatten(), nn.Linear(8, 3)
        ),
        9,
    ),
    "tied": (Tied, 4),
    "shared": (Shared, 9),
    "parametrized": (_parametrized, 4),
    "frozen": (_frozen, 4),
    "attention": (Attention, 8),
}


def problem(name: str, n: int = 7, seed: int = 0) -> Problem:
    """Build a network in training mode with running statistics that are not the default, and data for it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        make, width = NETWORKS[name]
        model = make().double()
        x, y = torch.randn(n, width, dtype=torch.float64), torch.arange(n) % 3
        model.train()
        with torch.no_grad():
            model(x * 2 + 1)
    return model, x, y
