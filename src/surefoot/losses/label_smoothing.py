"""Label smoothing."""

from __future__ import annotations

from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


@LOSSES.register("label_smoothing", reference="Szegedy et al. 2016; Müller et al. 2019")
class LabelSmoothing(Loss):
    """Cross-entropy towards labels softened by α, spread evenly over all classes.

    The target is 1 − α + α/K on the true class and α/K on the K − 1 others.
    Some codes put α/(K−1) on the others instead; convert theirs with α·K/(K−1).

    Args:
        alpha: Probability mass spread over all classes.

    Raises:
        OptionError: If alpha is not in [0, 1].
    """

    def __init__(self, *, alpha: float = 0.05) -> None:
        if not 0 <= alpha <= 1:
            raise OptionError(f"Expected alpha in [0, 1], but got {alpha:g}. Try alpha=0.05.")
        super().__init__()
        self.alpha = alpha

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the smoothed cross-entropy of each example."""
        return smoothed(logits, labels, self.alpha)


def smoothed(logits: Tensor, labels: Tensor, alpha: float | Tensor) -> LossTerms:
    """Return the cross-entropy towards softened labels.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        alpha: Mass spread over all classes: one number, or one per example.

    Returns:
        One loss per example.
    """
    log_probs = logits.log_softmax(-1)
    log_py = true_class(log_probs, labels)
    return LossTerms(-(1 - alpha) * log_py - alpha * log_probs.mean(-1), log_py=log_py)
