"""Squared error on logits."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Over = Literal["mean", "sum"]


@LOSSES.register("mse", reference="Hui & Belkin 2021, arXiv:2006.07322")
class MSE(Loss):
    """Squared error between logits and one-hot labels.

    (1/K) Σ_k (z_k − 1[k = y])² on raw logits, not on probabilities: for those see ``brier``.

    Its minimum is z = one-hot, where softmax gives the true class e/(e + K − 1): 0.23 for ten classes. Networks
    trained with it are under-confident for good.

    Args:
        over: Average or sum over the classes.

    Example:
        >>> from torch import tensor
        >>> MSE()(tensor([[0.0, 0.0]]), tensor([1])).per_example
        tensor([0.5000])
    """

    def __init__(self, *, over: Over = "mean") -> None:
        super().__init__()
        self.over = over

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the squared distance of each example's logits to its one-hot label."""
        squared = (logits - F.one_hot(labels, logits.shape[-1])).square()
        per_example = squared.mean(-1) if self.over == "mean" else squared.sum(-1)
        return LossTerms(per_example, log_py=true_class(logits.log_softmax(-1), labels))
