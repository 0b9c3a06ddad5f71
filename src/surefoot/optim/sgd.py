"""Stochastic gradient descent."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.registry import OPTIMIZERS


@OPTIMIZERS.register("sgd", passes=1, reference="torch.optim.SGD")
def sgd(
    params: list[Tensor],
    *,
    lr: float = 0.1,
    momentum: float = 0.9,
    weight_decay: float = 5e-4,
    nesterov: bool = False,
) -> torch.optim.Optimizer:
    """Stochastic gradient descent with momentum."""
    return torch.optim.SGD(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov)
