"""The common test input, and how a loss is made and summed."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.losses._base import Loss
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

NAMES = [part.name for part in LOSSES]
Z = torch.tensor([[2, 0.5, -1], [0.1, 0.2, 0.3], [3, -2, 0], [-1, 1.5, 1]], dtype=torch.float64)
Y = torch.tensor([0, 2, 1, 1])


def make(text: str) -> Loss:
    loss = LOSSES.build(LOSSES.parse(text))
    assert isinstance(loss, Loss)
    return loss


def added(terms: LossTerms) -> Tensor:
    return terms.per_example.mean() + (0 if terms.penalty is None else terms.penalty)


def total(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    return added(loss(logits, labels))
