"""Too sure or not sure enough: the two halves of ECE, and their difference."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._binned import binned, of_bins
from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, sums_of
from surefoot.metrics._top import checked_top, top_label
from surefoot.metrics._weights import mean
from surefoot.registry import METRICS


def _finish_over(sums: Tensor) -> Tensor:
    return (sums[1] - sums[2]).clamp(min=0).sum() / sums[0].sum()


def _finish_under(sums: Tensor) -> Tensor:
    return (sums[2] - sums[1]).clamp(min=0).sum() / sums[0].sum()


def _gap_of_top(confidence: Tensor, correct: Tensor) -> Tensor:
    return confidence.double() - correct.double()


def _mean_gap_of_top(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    return mean(_gap_of_top(confidence, correct), weights)


def _gap(probs: Tensor, labels: Tensor) -> Tensor:
    return _gap_of_top(*top_label(probs, labels))


@METRICS.register(
    "overconfidence",
    label="overconfidence",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="the part of ECE where confidence exceeds accuracy",
    **binned(_finish_over),
)
def overconfidence(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Overconfidence: the part of ECE from bins that are surer than right.

    .. math:: \sum_m \frac{n_m}{n} \max(0, \mathrm{conf}(B_m) - \mathrm{acc}(B_m))

    With :func:`underconfidence` it adds up to the ECE, and less it to the confidence gap.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> overconfidence(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _finish_over(of_bins(probs, labels, weights, n_bins))


@METRICS.register(
    "underconfidence",
    label="underconfidence",
    lower_is_better=True,
    range=(0.0, 1.0),
    unit="%",
    reference="the part of ECE where accuracy exceeds confidence",
    **binned(_finish_under),
)
def underconfidence(probs: Values, labels: Values, weights: Values | None = None, *, n_bins: int = 15) -> Tensor:
    r"""Underconfidence: the part of ECE from bins that are more often right than sure.

    .. math:: \sum_m \frac{n_m}{n} \max(0, \mathrm{acc}(B_m) - \mathrm{conf}(B_m))

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        n_bins: Number of bins (a, b].

    Returns:
        Scalar in [0, 1], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> underconfidence(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 0]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _finish_under(of_bins(probs, labels, weights, n_bins))


@METRICS.register(
    "confidence_gap",
    label="confidence − accuracy",
    lower_is_better=None,
    range=(-1.0, 1.0),
    unit="%",
    perfect=0.0,
    reference="mean confidence less accuracy; needs no bins and has no bias",
    sums=sums_of(_gap),
    finish=finish_mean,
    each=_gap,
    top=_mean_gap_of_top,
    interval="gap",
)
def confidence_gap(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Mean confidence less accuracy: positive when over-confident, negative when under-confident, best at 0.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [−1, 1], float64.

    Example:
        >>> from torch import tensor
        >>> confidence_gap(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.2500, dtype=torch.float64)
    """
    return _mean_gap_of_top(*checked_top(probs, labels, weights))
