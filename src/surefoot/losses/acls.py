"""ACLS: adaptive and conditional label smoothing."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("acls", reference="Park et al. 2023, arXiv:2308.11911")
class ACLS(Loss):
    r"""Cross-entropy plus squared excess of the top logit over a margin.

    Smooth the more, the further the predicted class ŷ is ahead.

    .. math:: -\log p_y + α [ λ_1 \max(0, z_ŷ - M)^2 + λ_2 \frac{1}{K-1} Σ_{k≠ŷ} \max(0, z_ŷ - z_k - M)^2 ]

    No gradient flows through z_ŷ in the second term. The first one depends on the raw logit, so the loss changes
    when a constant is added to all logits.

    Args:
        alpha: Strength α of the regulariser.
        lambda1: λ₁, weight of the predicted class.
        lambda2: λ₂, weight of the others.
        margin: M.
        shift_invariant: Measure z_ŷ in the first term from the smallest logit instead of from 0.

    Raises:
        OptionError: If a weight or the margin is negative.

    Example:
        >>> from torch import tensor
        >>> loss = ACLS(alpha=1.0, lambda1=1.0, lambda2=0.0, margin=1.0)  # the top logit is 2, so 1 too high
        >>> terms = loss(tensor([[2.0, 0.0]]), tensor([0]))
        >>> (terms.per_example + terms.log_py).round(decimals=4)
        tensor([1.])
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        lambda1: float = 1.0,
        lambda2: float = 0.1,
        margin: float = 10.0,
        shift_invariant: bool = False,
    ) -> None:
        if not min(alpha, lambda1, lambda2, margin) >= 0:
            raise OptionError(
                f"Expected weights and margin ≥ 0, but got alpha={alpha:g}, lambda1={lambda1:g}, lambda2={lambda2:g}, "
                f"margin={margin:g}. Leave them out for the defaults."
            )
        super().__init__()
        self.alpha, self.lambda1, self.lambda2, self.margin = alpha, lambda1, lambda2, margin
        self.shift_invariant = shift_invariant

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the regularised cross-entropy of each example; the regulariser does not depend on the label."""
        top, predicted = logits.max(-1)
        lead = top - logits.amin(-1) if self.shift_invariant else top
        behind = (top.detach()[:, None] - logits - self.margin).relu().square()
        others = ~F.one_hot(predicted, logits.shape[-1]).bool()
        spread = (behind * others).sum(-1) / (logits.shape[-1] - 1)
        regulariser = self.lambda1 * (lead - self.margin).relu().square() + self.lambda2 * spread
        log_py = true_class(logits.log_softmax(-1), labels)
        return LossTerms(-log_py + self.alpha * regulariser, log_py=log_py)
