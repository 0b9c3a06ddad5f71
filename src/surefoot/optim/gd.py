"""Gradient descent."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.registry import OPTIMIZERS


@OPTIMIZERS.register("gd", passes=1, reference="torch.optim.SGD; Cohen et al. 2021")
def gd(params: list[Tensor], *, lr: float = 0.1) -> torch.optim.Optimizer:
    """Gradient descent without momentum or weight decay; give it the whole training set as one batch."""
    return torch.optim.SGD(params, lr=lr)
