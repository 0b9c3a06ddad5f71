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


@LOSSES.register("mmce", reference="Kumar et al. 2018, ICML")
class MMCE(Loss):
    """Cross-entropy plus a kernel distance between confidence and correctness over the batch.

    Args:
        weight: λ. Published comparisons use 2 with ``weighted_as_coded`` and 1 with ``squared``.
        form: ``"weighted"``: MMCE_w as its paper defines it. ``"weighted_as_coded"``: as its authors' code and
            the ports of it compute it, with means of pairs divided by their number once more; much smaller when
            errors are few. ``"squared"``: MMCE_m, whose square the codes use without a root.

    Raises:
        OptionError: If the weight is negative.
    """

    def __init__(self, *, weight: float = 2.0, form: Form = "weighted") -> None:
        if not weight >= 0:
            raise OptionError(f"Expected weight ≥ 0, but got {weight:g}. Try weight=2.")
        super().__init__()
        self.weight, self.form = weight, form

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy of each example and the penalty of the batch."""
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
    """Return exp(−|r_i − r_j|/0.4) for all pairs."""
    return (-(conf[:, None] - conf[None, :]).abs() / WIDTH).exp()


def mmce_squared(conf: Tensor, correct: Tensor) -> Tensor:
    """Return MMCE_m² = (1/N²) Σ_ij (c_i − r_i)(c_j − r_j) k(r_i, r_j).

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
    """Return MMCE_w = ‖u − v‖, the distance of right and wrong examples' mean embeddings; 0 if either has none.

    Args:
        conf: Confidences r, shape ``(n,)``.
        correct: Whether the prediction is right.
        as_coded: Return ‖u/n_c − v/n_w‖, what the authors' code computes, with its 1e-5 in the denominators.

    Returns:
        A scalar.

    Example:
        >>> mmce_weighted(torch.tensor([0.8, 0.8]), torch.tensor([True, False]))  # |(1 − 0.8) − 0.8|
        tensor(0.6000)
    """
    right, k = correct.to(conf.dtype), kernel(conf)
    u, v = right * (1 - conf), (1 - right) * conf
    n_right, n_wrong = right.sum().clamp(min=1), (1 - right).sum().clamp(min=1)
    pairs = torch.stack([n_right**2, n_wrong**2, n_right * n_wrong])
    sums = torch.stack([u @ k @ u, v @ k @ v, u @ k @ v]) / pairs
    if as_coded:
        sums = sums / (pairs + 1e-5)
    distance = ((sums[0] + sums[1] - 2 * sums[2]).clamp(min=0) + TINY).sqrt()
    both = correct.any() & ~correct.all()
    return torch.where(both, distance, torch.zeros_like(distance))
