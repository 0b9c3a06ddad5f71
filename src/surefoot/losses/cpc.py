"""CPC: calibration by pairwise constraints."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Form = Literal["as_reused", "as_defined"]


@LOSSES.register("cpc", reference="Cheng & Vasconcelos 2022, CVPR")
class CPC(Loss):
    r"""Cross-entropy plus pairwise constraints between classes.

    The true class must beat each other class; the other classes must be equal among themselves.

    .. math:: -\log p_y + w_1 \, \mathrm{BDC} + w_2 \, \mathrm{BEC}

    BDC is the mean of softplus(z_j − z_y) over j ≠ y, BEC that of ½[softplus(z_a − z_b) + softplus(z_b − z_a)]
    over pairs {a, b} without y; BEC is never below log 2.

    Args:
        w1: Weight of the discrimination constraints.
        w2: Weight of the exclusion constraints.
        form: ``"as_defined"``, or ``"as_reused"``: the code that published comparisons reuse gives
            ½·BEC + ½·log 2/(K−2), so its w2 = 1 is 0.5 here.

    Example:
        >>> from torch import tensor  # all logits equal: 2 log 2 + log 3
        >>> CPC(w1=1.0, w2=1.0, form="as_defined")(tensor([[0.0, 0.0, 0.0]]), tensor([0])).per_example
        tensor([2.4849])
    """

    def __init__(self, *, w1: float = 0.1, w2: float = 1.0, form: Form = "as_reused") -> None:
        super().__init__()
        self.w1, self.w2, self.form = w1, w2, form

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the constrained cross-entropy of each example.

        Raises:
            InputError: If there are only two classes.
        """
        k = logits.shape[-1]
        if k < 3:
            raise InputError(f"Expected at least 3 classes for cpc, but got {k}. Choose another loss for two classes.")
        log_py = true_class(logits.log_softmax(-1), labels)
        per_example = -log_py + self.w1 * bdc(logits, labels)
        exclusion = bec(logits, labels)
        if self.form == "as_reused":
            exclusion = 0.5 * exclusion + 0.5 * math.log(2) / (k - 2)
        return LossTerms(per_example + self.w2 * exclusion, log_py=log_py)


def bdc(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each example's binary discrimination constraint, the mean of softplus(z_j − z_y) over j ≠ y."""
    others = 1 - F.one_hot(labels, logits.shape[-1])
    losing = F.softplus(logits - true_class(logits, labels)[:, None])
    return (losing * others).sum(-1) / (logits.shape[-1] - 1)


def bec(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each example's binary exclusion constraint: the mean of softplus(z_a − z_b) over ordered a ≠ b, both ≠ y.

    Memory grows as n·K².
    """
    k = logits.shape[-1]
    others = 1 - F.one_hot(labels, k)
    pairs = others[:, :, None] * others[:, None, :] * (1 - F.one_hot(labels.new_tensor(range(k)), k))
    return (F.softplus(logits[:, :, None] - logits[:, None, :]) * pairs).sum((1, 2)) / ((k - 1) * (k - 2))
