"""Multi-layer perceptron."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

from torch import nn

from surefoot.errors import InputError
from surefoot.models._staged import Staged
from surefoot.registry import MODELS


@MODELS.register("mlp")
def mlp(
    input_shape: tuple[int, ...],
    n_classes: int,
    *,
    width: int = 200,
    depth: int = 2,
    activation: Literal["relu", "tanh"] = "relu",
) -> nn.Module:
    """Fully connected network with hidden layers of equal width; takes inputs of any shape.

    Args:
        input_shape: Shape of one input; it is flattened.
        n_classes: Number of logits.
        width: Units per hidden layer.
        depth: Number of hidden layers.
        activation: Between the layers.

    Returns:
        The network.

    Raises:
        InputError: If the width or the depth makes no network.

    Example:
        >>> sum(p.numel() for p in mlp((3, 32, 32), 10, activation="tanh").parameters())
        656810
    """
    if width < 1 or depth < 0:
        raise InputError(f"Expected width ≥ 1 and depth ≥ 0, but got {width} and {depth}. Try width=200,depth=2.")
    sizes = [math.prod(input_shape), *[width] * depth]
    hidden = [
        nn.Sequential(nn.Linear(fan_in, fan_out), nn.ReLU() if activation == "relu" else nn.Tanh())
        for fan_in, fan_out in pairwise(sizes)
    ]
    first, *rest = [*hidden, nn.Linear(sizes[-1], n_classes)]
    return Staged(nn.Sequential(nn.Flatten(), first), *rest)
