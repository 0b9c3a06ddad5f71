"""Cross-entropy."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._base import Loss
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("ce", reference="Good 1952")
class CrossEntropy(Loss):
    """Cross-entropy, −log p(true class).

    Example:
        >>> from torch import tensor
        >>> CrossEntropy()(tensor([[0.0, 0.0]]), tensor([1])).per_example
        tensor([0.6931])
    """

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return −log p_y of each example."""
        return cross_entropy(logits, labels)


def cross_entropy(logits: Tensor, labels: Tensor) -> LossTerms:
    """Return −log p_y of each example, for the losses that start from it."""
    per_example = F.cross_entropy(logits, labels, reduction="none")
    return LossTerms(per_example, log_py=-per_example)
