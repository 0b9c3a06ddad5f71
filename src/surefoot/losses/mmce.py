"""MMCE: maximum mean calibration error."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.losses._base import Loss, true_class
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms

Form = Literal["weighted", "weighted_as_coded", "squared"]
WIDTH = 0.4
TINY = 1e-10  # the root has an infinite slope at 0


class MMCE(Loss):
    """Cross-entropy plus λ times a kernel distance between confidence and correctness over the batch.

    Args:
        weight: λ. Published comparisons use 2 with ``weighted_as_coded`` and 1 with ``squared``.
        form: ``"weighted"``: MMCE_w as its paper defines it. ``"weighted_as_coded"``: as its authors' code and
            the ports of it compute it, with means of pairs divided by their number once more; much smaller when
            errors are few. ``"squared"``: MMCE_m, whose square the codes use without a root.

    Raises:
        OptionError: If the weight is negative.
    """

    def __init__(self, weight: float = 2.0, form: Form = "weighted") -> None:
        if not weight >= 0:
            raise OptionError(f"Expected weight ≥ 0, but got {weight:g}. Try weight=2.")
        super().__init__()
        self.weight, self.form = weight, form

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Give the cross-entropy of each example and the penalty of the batch."""
        log_probs = logits.log_softmax(-1)
        conf, predicted = log_probs.exp().max(-1)
        correct = predicted == labels
        if self.form == "squared":
            penalty = mmce_squared(conf, correct)
        else:
            penalty = mmce_weighted(conf, correct, as_coded=self.form == "weighted_as_coded")
        log_py = true_class(log_probs, labels)
        return LossTerms(-log_py, self.weight * penalty, log_py)


def kernel(conf: Tensor) -> Tensor:
    """Give exp(−|r_i − r_j|/0.4) for all pairs."""
    return (-(conf[:, None] - conf[None, :]).abs() / WIDTH).exp()


def mmce_squared(conf: Tensor, correct: Tensor) -> Tensor:
    """Give MMCE_m² = (1/N²) Σ_ij (c_i − r_i)(c_j − r_j) k(r_i, r_j).

    Args:
        conf: Confidences r, shape ``(n,)``.
        correct: Whether the prediction is right, c.

    Returns:
        A scalar.

    Example:
        >>> mmce_squared(torch.tensor([0.8]), torch.tensor([True]))  # 0.2²
        tensor(0.0400)
    """
    gap = correct.to(conf.dtype) - conf
    return gap @ kernel(conf) @ gap / len(conf) ** 2


def mmce_weighted(conf: Tensor, correct: Tensor, *, as_coded: bool = False) -> Tensor:
    """Give MMCE_w = ‖u − v‖, the distance of right and wrong examples' mean embeddings; 0 if either has none.

    Args:
        conf: Confidences r, shape ``(n,)``.
        correct: Whether the prediction is right.
        as_coded: Give ‖u/n_c − v/n_w‖, what the authors' code computes (up to the 1e-5 in its denominators).

    Returns:
        A scalar.

    Example:
        >>> mmce_weighted(torch.tensor([0.8, 0.8]), torch.tensor([True, False]))  # |(1 − 0.8) − 0.8|
        tensor(0.6000)
    """
    right = correct.to(conf.dtype)
    wrong = 1 - right
    n_right, n_wrong = right.sum().clamp(min=1), wrong.sum().clamp(min=1)
    if as_coded:
        n_right, n_wrong = n_right**2, n_wrong**2
    weights = right * (1 - conf) / n_right - wrong * conf / n_wrong
    distance = ((weights @ kernel(conf) @ weights).clamp(min=0) + TINY).sqrt()
    both = correct.any() & ~correct.all()
    return torch.where(both, distance, torch.zeros_like(distance))


@LOSSES.register("mmce", reference="Kumar et al. 2018, ICML")
def mmce(*, weight: float = 2.0, form: Form = "weighted") -> Loss:
    """Cross-entropy plus a kernel distance between confidence and correctness."""
    return MMCE(weight, form)
