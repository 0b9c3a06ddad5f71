"""What a Brier score is made of: miscalibration that a repair can remove, and the rest."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.metrics._class_bins import class_bin_sums
from surefoot.metrics._input import Values
from surefoot.metrics._weights import check_weighted, ratio
from surefoot.metrics.brier import squared_distance
from surefoot.registry import METRICS

_REFERENCE = "Murphy 1973; with bins, Stephenson et al. 2008"


def _sums(probs: Tensor, labels: Tensor, weights: Tensor | None = None, *, n_bins: int) -> Tensor:
    bins = class_bin_sums(probs, labels, n_bins, weights)[:3].flatten()
    each, n = squared_distance(probs, labels), bins.new_tensor(len(labels))
    if weights is not None:
        each, n = weights * each, weights.sum()
    # The number of bins must survive addition: it is kept once per example.
    head = torch.stack([each.sum(), n, bins.new_tensor(n_bins) * n])
    return torch.cat([head, bins])


def _finish_calibration(sums: Tensor) -> Tensor:
    n_bins = int((sums[2] / sums[1]).round())
    count, confidence, correct = sums[3:].view(3, -1, n_bins).unbind()
    return ratio((confidence - correct).square(), count).sum() / sums[1]


def _finish_refinement(sums: Tensor) -> Tensor:
    return sums[0] / sums[1] - _finish_calibration(sums)


@METRICS.register(
    "brier_calibration",
    label="Brier score: calibration part",
    lower_is_better=True,
    range=(0.0, 2.0),
    unit="",
    reference=_REFERENCE,
    sums=_sums,
    finish=_finish_calibration,
    interval="none",
)
def brier_calibration(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Calibration part of the Brier score: squared gaps of the classwise bins, summed over classes.

    .. math:: \sum_k \sum_m \frac{n_{mk}}{n} (\mathrm{freq}_k(B_{mk}) - \bar p_k(B_{mk}))^2

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 2], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> brier_calibration(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # 2 · .25²
        tensor(0.1250, dtype=torch.float64)
    """
    return _finish_calibration(_sums(*check_weighted(probs, labels, weights), n_bins=n_bins))


@METRICS.register(
    "brier_refinement",
    label="Brier score: refinement part",
    lower_is_better=True,
    range=(0.0, 2.0),
    unit="",
    reference=_REFERENCE,
    sums=_sums,
    finish=_finish_refinement,
)
def brier_refinement(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    """Refinement part of the Brier score: what stays when the calibration part is taken away.

    The two parts add up to the Brier score exactly. The spread of probabilities within a bin counts as refinement.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 2], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> brier_refinement(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # of a fair coin
        tensor(0.5000, dtype=torch.float64)
    """
    return _finish_refinement(_sums(*check_weighted(probs, labels, weights), n_bins=n_bins))
