"""Adam with decoupled weight decay."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.registry import OPTIMIZERS


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
