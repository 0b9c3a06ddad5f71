"""Kernel calibration error of the top label (MMCE), exact in O(n log n)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._top import checked_top
from surefoot.metrics._weights import as_counts, mean, repeated, whole
from surefoot.registry import METRICS

Estimator = Literal["biased", "unbiased", "linear"]
_WHOLE = "its sum goes over pairs of examples"
_REFERENCE = "Kumar et al. 2018 (MMCE)"


def _pair_sum(confidence: Tensor, residual: Tensor, width: float) -> Tensor:
    """Add up r_i r_j exp(−|c_i − c_j| / width) over i < j.

    Sorted by c, the kernel is a product: exp(−c_j / width) · exp(c_i / width) for i before j. One running sum
    then serves all pairs.
    """
    c, order = confidence.sort()
    r = residual[order]
    rise = (c / width).exp()
    before = (r * rise).cumsum(0)
    return ((r[1:] / rise[1:]) * before[:-1]).sum()


def squared_of_top(
    confidence: Tensor,
    correct: Tensor,
    weights: Tensor | None = None,
    *,
    estimator: Estimator = "biased",
    width: float = 0.4,
) -> Tensor:
    """Return the squared kernel calibration error from confidence and correctness.

    Args:
        confidence: Shape ``(n,)``.
        correct: Shape ``(n,)``.
        weights: See :func:`squared_kce`.
        estimator: See :func:`squared_kce`.
        width: Of the kernel.

    Returns:
        Scalar, float64.

    Raises:
        OptionError: If the width is too small for exp(1 / width) or the estimator is unknown.
    """
    if not 0.002 <= width < float("inf"):
        raise OptionError(f"Expected a kernel width ≥ 0.002, but got {width}. 0.4 is usual.")
    c = confidence.double()
    r = correct.double() - c
    n = len(c)
    if weights is not None and not (estimator == "linear" and whole(weights)):
        return _weighted(c, r, weights, estimator, width)
    if weights is not None:
        c, r = repeated(weights, c, r)
        n = len(c)
    if estimator == "biased":
        return (2 * _pair_sum(c, r, width) + r.square().sum()) / n**2
    if estimator == "unbiased":
        return 2 * _pair_sum(c, r, width) / torch.tensor(n * (n - 1.0), dtype=torch.float64)
    if estimator == "linear":
        half = n // 2 * 2
        kernel = (-(c[0:half:2] - c[1:half:2]).abs() / width).exp()
        return (r[0:half:2] * r[1:half:2] * kernel).mean()
    raise OptionError(f"Expected estimator biased, unbiased or linear, but got {estimator!r}.")


def _weighted(c: Tensor, r: Tensor, weights: Tensor, estimator: Estimator, width: float) -> Tensor:
    if estimator == "linear":
        half = len(c) // 2 * 2
        kernel = (-(c[0:half:2] - c[1:half:2]).abs() / width).exp()
        return mean(r[0:half:2] * r[1:half:2] * kernel, weights[0:half:2] * weights[1:half:2])
    if estimator == "biased":
        r = weights * r
        return (2 * _pair_sum(c, r, width) + r.square().sum()) / weights.sum().square()
    if estimator == "unbiased":
        w = as_counts(weights)
        n = w.sum()
        return (2 * _pair_sum(c, w * r, width) + (w * (w - 1) * r.square()).sum()) / (n * (n - 1))
    raise OptionError(f"Expected estimator biased, unbiased or linear, but got {estimator!r}.")


def _root_of_top(
    confidence: Tensor,
    correct: Tensor,
    weights: Tensor | None = None,
    *,
    estimator: Estimator = "biased",
    width: float = 0.4,
) -> Tensor:
    return squared_of_top(confidence, correct, weights, estimator=estimator, width=width).clamp(min=0).sqrt()


@METRICS.register(
    "kce",
    label="KCE",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference=_REFERENCE,
    whole=_WHOLE,
    top=_root_of_top,
    interval="none",
)
def kce(
    probs: Values, labels: Values, weights: Values | None = None, *, estimator: Estimator = "biased", width: float = 0.4
) -> Tensor:
    r"""Kernel calibration error of the top label (MMCE), in the units of ECE: the root of the squared one.

    Where all gaps have one sign and the kernel is wide, it is the mean gap, which is then also the ECE.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike. A row of weight w is w distinct
            examples, whose pairs with each other count too; for ``unbiased``, weights that are not all whole numbers
            are scaled to a mean of 1, and for ``linear`` they weigh the pairs.
        estimator: See :func:`squared_kce`; negative squares give 0.
        width: Of the Laplacian kernel exp(−\|c − c'\| / width).

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> kce(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _root_of_top(*checked_top(probs, labels, weights), estimator=estimator, width=width)


@METRICS.register(
    "squared_kce",
    label="squared KCE",
    lower_is_better=True,
    range=(-1.0, 1.0),
    unit="",
    digits=5,
    perfect=0.0,
    reference=_REFERENCE,
    whole=_WHOLE,
    top=squared_of_top,
    interval="none",
)
def squared_kce(
    probs: Values, labels: Values, weights: Values | None = None, *, estimator: Estimator = "biased", width: float = 0.4
) -> Tensor:
    r"""Squared kernel calibration error of the top label.

    .. math:: \frac{1}{n^2} \sum_{i,j} (y_i - c_i)(y_j - c_j) \exp(-|c_i - c_j| / w)

    with c the confidence and y the correctness.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike. A row of weight w is w distinct
            examples, whose pairs with each other count too; for ``unbiased``, weights that are not all whole numbers
            are scaled to a mean of 1, and for ``linear`` they weigh the pairs.
        estimator: ``biased``: the mean over all pairs, never negative; ``unbiased``: the mean over pairs i ≠ j,
            negative by chance when calibrated; ``linear``: the mean over pairs (1, 2), (3, 4), …, unbiased too.
        width: Of the kernel.

    Returns:
        Scalar, float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> squared_kce(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # (.25 − .75)² / 4
        tensor(0.0625, dtype=torch.float64)
        >>> squared_kce(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]), estimator="unbiased")  # −.75 · .25
        tensor(-0.1875, dtype=torch.float64)
    """
    return squared_of_top(*checked_top(probs, labels, weights), estimator=estimator, width=width)
