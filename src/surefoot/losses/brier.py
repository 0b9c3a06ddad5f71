"""Brier loss."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("brier", reference="Brier 1950")
class Brier(Loss):
    """Squared distance between probabilities and one-hot labels.

    Σ_k (p_k − 1[k = y])², in [0, 2].

    Example:
        >>> from torch import tensor
        >>> Brier()(tensor([[0.0, 0.0]]), tensor([1])).per_example
        tensor([0.5000])
    """

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the squared distance of each example's probabilities to its one-hot label."""
        log_probs = logits.log_softmax(-1)
        squared = (log_probs.exp() - F.one_hot(labels, logits.shape[-1])).square()
        return LossTerms(squared.sum(-1), log_py=true_class(log_probs, labels))
