"""Plain optimizers of torch with the defaults that are used here: as they are, or as the base of another one."""

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


@OPTIMIZERS.register("gd", passes=1, reference="torch.optim.SGD; Cohen et al. 2021")
def gd(params: list[Tensor], *, lr: float = 0.1) -> torch.optim.Optimizer:
    """Gradient descent without momentum or weight decay; give it the whole training set as one batch."""
    return torch.optim.SGD(params, lr=lr)


@OPTIMIZERS.register("adamw", passes=1, reference="torch.optim.AdamW; Loshchilov & Hutter 2019")
def adamw(
    params: list[Tensor],
    *,
    lr: float = 1e-3,
    weight_decay: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay."""
    return torch.optim.AdamW(params, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
