"""How undecided predictions are: entropy of the prediction, and of the probability of the true class."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, mean_of, sums_of
from surefoot.registry import METRICS


def _entr(p: Tensor) -> Tensor:
    """Return −p log p, which is 0 at 0."""
    return -torch.xlogy(p, p)


def entropy_of_rows(probs: Tensor) -> Tensor:
    """Return the entropy −Σ p log p of each row, in nats, float64."""
    return _entr(probs.double().clamp(max=1)).sum(1)


def _prediction(probs: Tensor, labels: Tensor) -> Tensor:
    return entropy_of_rows(probs)


def _truth(probs: Tensor, labels: Tensor) -> Tensor:
    p_y = probs.gather(1, labels[:, None]).squeeze(1).double().clamp(max=1)
    return _entr(p_y) + _entr(1 - p_y)


@METRICS.register(
    "entropy",
    label="predictive entropy",
    lower_is_better=None,
    range=(0.0, float("inf")),
    unit="nats",
    perfect=0.0,
    reference="Shannon 1948",
    sums=sums_of(_prediction),
    finish=finish_mean,
    each=_prediction,
    interval="parts",
)
def entropy(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Mean entropy −Σ p log p of the predicted distributions, in nats; the labels are not looked at.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, log classes], float64; neither direction is better.

    Example:
        >>> from torch import tensor
        >>> entropy(tensor([[0.5, 0.5]]), tensor([0]))
        tensor(0.6931, dtype=torch.float64)
    """
    return mean_of(_prediction, probs, labels, weights)


@METRICS.register(
    "true_class_entropy",
    label="entropy of p_y",
    lower_is_better=None,
    range=(0.0, 0.6931471805599454),
    unit="nats",
    perfect=0.0,
    reference="the binary entropy that sharpness-aware training raises in the analysis of CSAM",
    sums=sums_of(_truth),
    finish=finish_mean,
    each=_truth,
    interval="parts",
)
def true_class_entropy(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Mean binary entropy of the true class's probability, −p_y log p_y − (1 − p_y) log(1 − p_y), in nats.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, log 2], float64; neither direction is better.

    Example:
        >>> from torch import tensor
        >>> true_class_entropy(tensor([[0.5, 0.5], [1.0, 0.0]]), tensor([0, 0]))
        tensor(0.3466, dtype=torch.float64)
    """
    return mean_of(_truth, probs, labels, weights)
