"""Dual focal loss."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("dual_focal", reference="Tao et al. 2023, arXiv:2305.13665")
class DualFocal(Loss):
    """Focal loss that also widens the gap to the best class ranked after the truth.

    −(1 − p_y + q)^γ log p_y, with q the largest probability that is smaller than p_y.

    q is that of the best class ranked *after* the truth, 0 if there is none; gradient flows through it.

    Args:
        gamma: γ, chosen on held-out data; the authors report 2.3 to 6.1.

    Raises:
        OptionError: If gamma is negative.

    Example:
        >>> loss = DualFocal(gamma=1.0)(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]))
        >>> loss.per_example  # p = (¾, ¼): −(1 − ¾ + ¼) log ¾
        tensor([0.1438])
    """

    def __init__(self, *, gamma: float = 5.0) -> None:
        if not gamma >= 0:
            raise OptionError(f"Expected gamma ≥ 0, but got {gamma:g}. Try gamma=5.")
        super().__init__()
        self.gamma = gamma

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the dual focal loss of each example."""
        log_probs = logits.log_softmax(-1)
        log_py = true_class(log_probs, labels)
        after = log_probs < log_py[:, None]
        q = torch.where(after, log_probs.exp(), 0.0).amax(-1)
        base = -torch.expm1(log_py) + q
        base = torch.where(base > 0, base, torch.finfo(base.dtype).tiny)  # pow has no slope at 0 for γ < 1
        return LossTerms(-(base**self.gamma) * log_py, log_py=log_py)
