"""Smooth expected calibration error: no bins, and no choice of width."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.fft import dct, idct
from scipy.optimize import brentq
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._top import checked_top, sums_of_top
from surefoot.registry import METRICS

GRID = 1 << 13
_NARROWEST = 1e-3


def _residuals(confidence: Tensor, correct: Tensor, weights: Tensor | None = None, *, sigma: float | None) -> Tensor:
    """Add up confidence − correctness on a fine grid, each example shared between its two nearest cells.

    Sharing keeps the centre of mass, so what the grid changes is of the order (cell / sigma)².
    """
    if sigma is not None and not _NARROWEST <= sigma <= 10:
        raise OptionError(f"Expected sigma in [{_NARROWEST:g}, 10], but got {sigma}. Leave it out to have it chosen.")
    c = confidence.double().clamp(0, 1)
    residual = c - correct.double()
    n: float = len(c)
    if weights is not None:
        residual, n = weights * residual, weights.sum().item()
    place = (c * GRID - 0.5).clamp(0, GRID - 1)
    left = place.long().clamp(max=GRID - 2)
    right_share = place - left
    sums = torch.bincount(left, weights=residual * (1 - right_share), minlength=GRID)
    sums += torch.bincount(left + 1, weights=residual * right_share, minlength=GRID)
    # Count, and sigma (0: to be chosen) times count so that it survives addition.
    return torch.cat([sums, sums.new_tensor([n, n * (sigma or 0.0)])])


class _Smoothed:
    """The integral of |residuals smoothed by a Gaussian reflected at 0 and 1| as a function of its width.

    Reflection at both ends, again and again, makes cosines the eigenfunctions of the smoothing.
    """

    def __init__(self, residuals: Tensor, n: float) -> None:
        self._cosines = dct(residuals.numpy() / n, type=2)
        self._decay = -((math.pi * np.arange(GRID)) ** 2) / 2

    def __call__(self, sigma: float) -> float:
        smooth = idct(self._cosines * np.exp(self._decay * sigma**2), type=2)
        return float(np.abs(smooth).sum())


def _finish(sums: Tensor) -> Tensor:
    n = sums[-2].item()
    smoothed = _Smoothed(sums[:-2], n)
    sigma = sums[-1].item() / n
    return torch.tensor(smoothed(sigma) if sigma else _fixed_point(smoothed), dtype=torch.float64)


def _fixed_point(smoothed: _Smoothed) -> float:
    """Find the width that equals its own error; the error falls with the width, so there is one."""
    narrow = smoothed(_NARROWEST)
    if narrow <= _NARROWEST:
        return narrow
    # The error is at most 1, and that of a width of 2 is below it.
    return float(brentq(lambda sigma: smoothed(sigma) - sigma, _NARROWEST, 2.0, xtol=1e-10))


def _of_top(
    confidence: Tensor, correct: Tensor, weights: Tensor | None = None, *, sigma: float | None = None
) -> Tensor:
    return _finish(_residuals(confidence, correct, weights, sigma=sigma))


@METRICS.register(
    "smooth_ece",
    label="smooth ECE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="Błasiok and Nakkiran 2023, arXiv:2309.12236",
    sums=sums_of_top(_residuals),
    finish=_finish,
    top=_of_top,
    interval="none",
)
def smooth_ece(probs: Values, labels: Values, weights: Values | None = None, *, sigma: float | None = None) -> Tensor:
    r"""Smooth ECE: the gap between confidence and correctness, smoothed by a kernel instead of cut into bins.

    .. math:: \int_0^1 |\frac{1}{n} \sum_i (c_i - y_i) K_\sigma(t, c_i)| dt

    with K a Gaussian reflected at 0 and 1 and σ the width that equals the result. The integral is taken on 8,192
    cells through cosine transforms, which reflect exactly; the state is as large as the grid.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        sigma: Width of the kernel; chosen as described when left out.

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> smooth_ece(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # all gaps have one sign
        tensor(0.2500, dtype=torch.float64)
    """
    return _of_top(*checked_top(probs, labels, weights), sigma=sigma)
