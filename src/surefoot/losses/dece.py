"""DECE: a differentiable expected calibration error."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms


def dece_of(
    logits: Tensor, labels: Tensor, *, bins: int = 15, sharpness: float = 100.0, temperature: float = 0.01
) -> Tensor:
    """Return Σ_b |Σ_i q_ib (a_i − conf_i)|/N with soft bins q and soft correctness a.

    Everything is smooth and can be differentiated twice.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        bins: Number of soft bins.
        sharpness: τ_a, of the soft rank of the true class.
        temperature: τ_b, of the softmax over bins.

    Returns:
        A scalar.

    Example:
        >>> dece_of(torch.tensor([[9.0, 0.0]]), torch.tensor([1])).round(decimals=2)  # sure, and wrong
        tensor(1.)
    """
    probs = logits.softmax(-1)
    conf = probs.amax(-1)
    count = torch.arange(1, bins + 1, dtype=logits.dtype, device=logits.device)
    cuts = ((count - 1) / bins).cumsum(0)
    q = ((conf[:, None] * count - cuts) / temperature).softmax(-1)
    q = (q + 1e-6) / (1 + (bins + 1) * 1e-6)  # the authors' normaliser, one bin too many
    p_y = probs.gather(-1, labels[:, None])
    rank = 0.5 + (sharpness * (probs - p_y)).sigmoid().sum(-1)
    correct = (2 - rank).relu()
    return (q * (correct - conf)[:, None]).sum(0).abs().sum() / len(labels)


@LOSSES.register("dece", reference="Bohdal et al. 2023, arXiv:2106.09613")
class DECE(Loss):
    """Cross-entropy plus a differentiable expected calibration error of the batch.

    Args:
        weight: Of the calibration error. Alone it could be lowered by unlearning.
        bins: Number of soft bins.
        sharpness: τ_a.
        temperature: τ_b.

    Raises:
        OptionError: If the weight is negative or there are no bins.
    """

    def __init__(
        self, *, weight: float = 0.5, bins: int = 15, sharpness: float = 100.0, temperature: float = 0.01
    ) -> None:
        if not (weight >= 0 and bins >= 1 and sharpness > 0 and temperature > 0):
            raise OptionError(
                f"Expected weight ≥ 0, bins ≥ 1, sharpness > 0 and temperature > 0, but got {weight:g}, {bins}, "
                f"{sharpness:g} and {temperature:g}. Leave them out."
            )
        super().__init__()
        self.weight, self.bins, self.sharpness, self.temperature = weight, bins, sharpness, temperature

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy of each example and the calibration error of the batch."""
        error = dece_of(logits, labels, bins=self.bins, sharpness=self.sharpness, temperature=self.temperature)
        return cross_entropy(logits, labels)._replace(penalty=self.weight * error)
