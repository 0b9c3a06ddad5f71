"""Entropy regularisation."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Over = Literal["sum", "mean"]


@LOSSES.register("entropy", reference="Pereyra et al. 2017, arXiv:1701.06548")
class EntropyPenalty(Loss):
    """Cross-entropy minus beta times the entropy of the prediction.

    −log p_y − β·H(p), or −log p_y + β·max(0, Γ − H(p)): pay for too little entropy H = −Σ_k p_k log p_k.

    Args:
        beta: Strength β.
        hinge: Γ, an entropy above which nothing is paid; None for the plain form.
        over: ``"sum"`` over classes is the definition. ``"mean"`` divides H by K, as some codes do: there the
            same β is K times weaker.

    Raises:
        OptionError: If beta is negative.

    Example:
        >>> from torch import tensor  # p = (½, ½): −log p_y = H = log 2
        >>> EntropyPenalty(beta=1.0)(tensor([[0.0, 0.0]]), tensor([1])).per_example
        tensor([0.])
    """

    def __init__(self, *, beta: float = 0.1, hinge: float | None = None, over: Over = "sum") -> None:
        if not beta >= 0:
            raise OptionError(f"Expected beta ≥ 0, but got {beta:g}. Try beta=0.1.")
        super().__init__()
        self.beta, self.hinge, self.over = beta, hinge, over

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the penalised cross-entropy of each example."""
        log_probs = logits.log_softmax(-1)
        h = entropy_of(log_probs)
        if self.over == "mean":
            h = h / logits.shape[-1]
        reward = h if self.hinge is None else -(self.hinge - h).relu()
        log_py = true_class(log_probs, labels)
        return LossTerms(-log_py - self.beta * reward, log_py=log_py)


def entropy_of(log_probs: Tensor) -> Tensor:
    """Return −Σ_k p_k log p_k of each row.

    Args:
        log_probs: Finite log-probabilities, shape ``(n, classes)``.

    Returns:
        Shape ``(n,)``.
    """
    return -(log_probs.exp() * log_probs).sum(-1)
