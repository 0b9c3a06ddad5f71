"""A second head on a network: a fixed simplex on unit-norm features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.modes import in_eval_mode


def simplex(n_features: int, n_classes: int, generator: torch.Generator) -> Tensor:
    """Draw a simplex equiangular tight frame, M = √(K/(K−1))·U(I − 11ᵀ/K) with orthonormal U.

    Args:
        n_features: Rows d; at least as many as classes.
        n_classes: Columns K, each of norm 1, every two at cosine −1/(K − 1).
        generator: Draws U.

    Returns:
        Shape ``(d, K)``.

    Raises:
        InputError: If there are fewer features than classes.

    Example:
        >>> m = simplex(4, 3, torch.Generator().manual_seed(0))
        >>> (m.T @ m).round(decimals=4)
        tensor([[ 1.0000, -0.5000, -0.5000],
                [-0.5000,  1.0000, -0.5000],
                [-0.5000, -0.5000,  1.0000]])
    """
    if n_features < n_classes:
        raise InputError(
            f"Expected at least as many features as classes, but got {n_features} and {n_classes}. Widen the network."
        )
    u, _ = torch.linalg.qr(torch.randn(n_features, n_classes, generator=generator, dtype=torch.float64))
    centred = torch.eye(n_classes, dtype=torch.float64) - 1 / n_classes
    frame: Tensor = math.sqrt(n_classes / (n_classes - 1)) * u @ centred
    return frame.float()


class Adaptor(nn.Module):
    """A residual bottleneck, then unit-norm features: over maps with 3×3 convolutions, over vectors without.

    Args:
        width: Channels of the maps, or length of the vectors.
        maps: Whether the features are maps.
    """

    def __init__(self, width: int, *, maps: bool) -> None:
        super().__init__()
        half = max(1, width // 2)
        if maps:
            norm: type[nn.Module] = nn.BatchNorm2d
            down: nn.Module = nn.Conv2d(width, half, 3, padding=1, bias=False)
            up: nn.Module = nn.Conv2d(half, width, 3, padding=1, bias=False)
        else:
            norm = nn.BatchNorm1d
            down, up = nn.Linear(width, half, bias=False), nn.Linear(half, width, bias=False)
        self.branch = nn.Sequential(norm(width), nn.ReLU(), down, norm(half), nn.ReLU(), up)
        self.out = nn.Sequential(norm(width), nn.ReLU())

    def forward(self, features: Tensor) -> Tensor:
        """Return one unit vector per example."""
        adapted = self.out(features + self.branch(features))
        pooled = adapted.mean((2, 3)) if adapted.ndim == 4 else adapted
        return F.normalize(pooled, dim=1)


class TwoHeads(nn.Module):
    """A network's own head and a fixed simplex head; predicts with share·first + (1 − share)·second.

    Args:
        model: Exposes its ``stages``, the last of which is the head.
        example: Two inputs, to find the size of the features with.
        n_classes: Number of classes.
        share: λ, of the network's own head; a buffer.
        generator: Draws the simplex.

    Raises:
        InputError: If the network has no stages, or features that are neither maps nor vectors.
    """

    share: Tensor
    frame: Tensor

    def __init__(
        self, model: nn.Module, example: Tensor, n_classes: int, share: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        stages: Sequence[nn.Module] | None = getattr(model, "stages", None)
        if stages is None:
            raise InputError(
                f"Expected a network with stages for a second head, but {type(model).__name__} has none. "
                "Give it an attribute stages: modules that run one after another, the last one the head."
            )
        self.trunk = nn.Sequential(*stages[:-1])
        self.head = stages[-1]
        with torch.no_grad(), in_eval_mode(self.trunk):
            shape = self.trunk(example).shape
        if len(shape) not in (2, 4):
            raise InputError(
                f"Expected features that are maps or vectors for a second head, but got shape {tuple(shape[1:])}. "
                "Choose a convolutional network or mlp."
            )
        self.adaptor = Adaptor(shape[1], maps=len(shape) == 4)
        self.register_buffer("frame", simplex(shape[1], n_classes, generator))
        self.register_buffer("share", torch.tensor(share))

    def heads(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of both heads."""
        features = self.trunk(inputs)
        return self.head(features), self.adaptor(features) @ self.frame

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the mixed logits."""
        own, fixed = self.heads(inputs)
        return self.share * own + (1 - self.share) * fixed
