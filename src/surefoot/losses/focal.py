"""Focal loss."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


def focal_of(log_py: Tensor, gamma: float | Tensor) -> Tensor:
    """Return −(1 − p_y)^γ log p_y.

    Args:
        log_py: log p(true class) of each example.
        gamma: γ ≥ 0, one for all or one each.

    Returns:
        One loss per example.

    Example:
        >>> focal_of(torch.tensor([0.5]).log(), 2.0)  # ¼ · log 2
        tensor([0.1733])
    """
    missing = -torch.expm1(log_py)  # 1 − p_y without loss of digits near p_y = 1
    # pow has an infinite slope at 0 for γ < 1; a p_y of exactly 1 has no loss and no slope whatever γ is.
    missing = torch.where(missing > 0, missing, torch.finfo(missing.dtype).tiny)
    return -(missing**gamma) * log_py


@LOSSES.register("focal", reference="Lin et al. 2017; Mukhoti et al. 2020, arXiv:2002.09437")
class Focal(Loss):
    """Cross-entropy times (1 - p_y)^gamma: examples that are nearly certain count less.

    −(1 − p_y)^γ log p_y.

    Args:
        gamma: γ; 0 is cross-entropy.

    Raises:
        OptionError: If gamma is negative.
    """

    def __init__(self, *, gamma: float = 3.0) -> None:
        if not gamma >= 0:
            raise OptionError(f"Expected gamma ≥ 0, but got {gamma:g}. Try gamma=3.")
        super().__init__()
        self.gamma = gamma

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the focal loss of each example."""
        log_py = true_class(logits.log_softmax(-1), labels)
        return LossTerms(focal_of(log_py, self.gamma), log_py=log_py)


@LOSSES.register("flsd", reference="Mukhoti et al. 2020, arXiv:2002.09437")
class FLSD(Loss):
    """Focal loss with one gamma for p_y below a threshold and another above (FLSD-53).

    By default γ = 5 where p_y < 0.2 and γ = 3 elsewhere. γ depends on the sample and carries no gradient.

    Args:
        low: γ below the threshold.
        high: γ from the threshold on.
        threshold: On p_y.

    Raises:
        OptionError: If a γ is negative or the threshold no probability.
    """

    def __init__(self, *, low: float = 5.0, high: float = 3.0, threshold: float = 0.2) -> None:
        if not (low >= 0 and high >= 0 and 0 <= threshold <= 1):
            raise OptionError(
                f"Expected low, high ≥ 0 and threshold in [0, 1], but got {low:g}, {high:g} and {threshold:g}. "
                "Leave them out for FLSD-53."
            )
        super().__init__()
        self.low, self.high, self.threshold = low, high, threshold

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the focal loss of each example, with its own γ."""
        log_py = true_class(logits.log_softmax(-1), labels)
        gamma = torch.where(log_py.detach().exp() < self.threshold, self.low, self.high).to(logits.dtype)
        return LossTerms(focal_of(log_py, gamma), log_py=log_py)
