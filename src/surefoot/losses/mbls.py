"""MbLS: margin-based label smoothing."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Over = Literal["mean", "sum"]


@LOSSES.register("mbls", reference="Liu et al. 2022, arXiv:2111.15430")
class MbLS(Loss):
    """Cross-entropy plus what logits fall behind the largest one by more than a margin.

    −log p_y + α·mean_k max(0, max_j z_j − z_k − m).

    The largest logit, whichever class it is of, may lead the others by m for free. It receives gradient too.

    Args:
        alpha: Strength α.
        margin: m.
        over: ``"mean"`` over the K classes as in the authors' code, or ``"sum"``, which is K times stronger.

    Raises:
        OptionError: If alpha or the margin is negative.

    Example:
        >>> from torch import tensor
        >>> loss = MbLS(alpha=1.0, margin=1.0)  # the second class is 2 behind, 1 too far; mean over two classes ½
        >>> (loss(tensor([[2.0, 0.0]]), tensor([0])).per_example - tensor(1 + 2.718281828**-2).log()).round(decimals=4)
        tensor([0.5000])
    """

    def __init__(self, *, alpha: float = 0.1, margin: float = 10.0, over: Over = "mean") -> None:
        if not (alpha >= 0 and margin >= 0):
            raise OptionError(
                f"Expected alpha ≥ 0 and margin ≥ 0, but got {alpha:g} and {margin:g}. Try alpha=0.1,margin=6."
            )
        super().__init__()
        self.alpha, self.margin, self.over = alpha, margin, over

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the penalised cross-entropy of each example."""
        excess = (logits.amax(-1, keepdim=True) - logits - self.margin).relu()
        penalty = excess.mean(-1) if self.over == "mean" else excess.sum(-1)
        log_py = true_class(logits.log_softmax(-1), labels)
        return LossTerms(-log_py + self.alpha * penalty, log_py=log_py)
