"""MDCA: multi-class difference in confidence and accuracy."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.losses.focal import focal_of
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Classes = Literal["all", "top"]


@LOSSES.register("mdca", reference="Hebbalaguppe et al. 2022, arXiv:2203.13834")
class MDCA(Loss):
    """Focal loss (gamma 0: cross-entropy) plus the gap between mean probabilities and class frequencies.

    The second part is a penalty of the batch. It is positive by chance even for perfect probabilities: about 0.02
    for ten classes and 128 examples.

    Args:
        beta: Strength β.
        gamma: γ of the focal loss that it is added to.
        classes: ``"all"`` for MDCA; ``"top"`` for DCA, |mean confidence − accuracy|.

    Raises:
        OptionError: If beta or gamma is negative.
    """

    def __init__(self, *, beta: float = 1.0, gamma: float = 0.0, classes: Classes = "all") -> None:
        if not (beta >= 0 and gamma >= 0):
            raise OptionError(f"Expected beta ≥ 0 and gamma ≥ 0, but got {beta:g} and {gamma:g}. Try beta=1,gamma=1.")
        super().__init__()
        self.beta, self.gamma, self.classes = beta, gamma, classes

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the focal loss of each example and the penalty of the batch."""
        log_probs = logits.log_softmax(-1)
        log_py = true_class(log_probs, labels)
        difference = mdca_of if self.classes == "all" else dca_of
        return LossTerms(focal_of(log_py, self.gamma), self.beta * difference(log_probs.exp(), labels), log_py)


def mdca_of(probs: Tensor, labels: Tensor) -> Tensor:
    """Return (1/K) Σ_k |mean_i p_ik − mean_i 1[y_i = k]|.

    Example:
        >>> from torch import tensor
        >>> mdca_of(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # ¾ and ¼ against ½ and ½
        tensor(0.2500)
    """
    frequencies = F.one_hot(labels, probs.shape[-1]).to(probs.dtype).mean(0)
    return (probs.mean(0) - frequencies).abs().mean()


def dca_of(probs: Tensor, labels: Tensor) -> Tensor:
    """Return |mean confidence − accuracy| of the predicted classes."""
    conf, predicted = probs.max(-1)
    return (conf.mean() - (predicted == labels).to(probs.dtype).mean()).abs()
