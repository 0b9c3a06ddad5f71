"""Calibration errors less the part that is only the noise of finite bins."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surefoot.metrics._binned import binned, gaps, of_bins
from surefoot.metrics._input import Values
from surefoot.metrics._weights import BROKEN, ROWS, ratio
from surefoot.registry import METRICS

_REFERENCE = "Kumar et al. 2019, arXiv:1909.10155"


def _noise(sums: Tensor, less: int) -> Tensor:
    """Estimate the variance of each bin's accuracy, with n_b − less in the denominator."""
    # Sums of weights are rounded: of hits alone their share may be a hair above 1, and would have no deviation.
    accuracy, count = ratio(sums[2], sums[0]).clamp(0, 1), _count(sums)
    return accuracy * (1 - accuracy) / (count - less).clamp(min=1)


def _count(sums: Tensor) -> Tensor:
    """Count rows as often as they weigh; weights that are not all whole numbers have a mean of 1."""
    if len(sums) == 3:
        return sums[0]
    broken = sums[BROKEN].sum() > 0
    return sums[0] * torch.where(broken, sums[ROWS].sum() / sums[0].sum(), 1.0)


def _finish_absolute(sums: Tensor) -> Tensor:
    share, gap = gaps(sums)
    share = share * (_count(sums) >= 2)
    deviation = _noise(sums, less=0).sqrt()
    ratio = gap / deviation.clamp(min=1e-300)
    # Mean of |N(gap, deviation²)|: what the plug-in would be on average if the bins' true gaps were the observed ones.
    density = (-ratio.square() / 2).exp() * math.sqrt(2 / math.pi)
    expected = deviation * density + gap * torch.erf(ratio / math.sqrt(2))
    return (share * (2 * gap.abs() - expected)).sum()


def _finish_squared(sums: Tensor) -> Tensor:
    share, gap = gaps(sums)
    share = share * (_count(sums) >= 2)
    return (share * (gap.square() - _noise(sums, less=1))).sum().clamp(min=0).sqrt()


@METRICS.register(
    "debiased_ece",
    label="debiased ECE",
    lower_is_better=True,
    range=(-1.0, 1.0),
    unit="%",
    perfect=0.0,
    reference=_REFERENCE,
    **binned(_finish_absolute),
)
def debiased_ece(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Debiased ECE: twice the ECE less its mean under resampled bin accuracies; slightly negative by chance.

    .. math:: 2\,\mathrm{ECE} - \sum_m \frac{n_m}{n} E|N(g_m, a_m(1-a_m)/n_m)|

    with g the gap and a the accuracy of a bin. The mean is in closed form, so nothing is drawn. Bins with one example
    say nothing about their noise and are left out.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar, float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> debiased_ece(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([1, 1]))  # no variance: .75 as it is
        tensor(0.7500, dtype=torch.float64)
    """
    return _finish_absolute(of_bins(probs, labels, weights, n_bins))


@METRICS.register(
    "debiased_rms_ce",
    label="debiased RMS calibration error",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference=_REFERENCE,
    **binned(_finish_squared),
)
def debiased_rms_ce(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Debiased RMS calibration error: root of the squared one less each bin's estimated variance.

    .. math:: \sqrt{\max(0, \sum_m \frac{n_m}{n} [g_m^2 - \frac{a_m(1-a_m)}{n_m - 1}])}

    with g the gap and a the accuracy of a bin; the sum is unbiased for the bins' squared error, its root is not.
    Bins with one example are left out.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> debiased_rms_ce(tensor([[0.9, 0.1], [0.9, 0.1]]), tensor([1, 1]))  # no variance: .9 as it is
        tensor(0.9000, dtype=torch.float64)
    """
    return _finish_squared(of_bins(probs, labels, weights, n_bins))
