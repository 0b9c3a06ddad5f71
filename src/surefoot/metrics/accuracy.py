"""Accuracy."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, sums_of
from surefoot.metrics._top import checked_top, top_label
from surefoot.metrics._weights import mean
from surefoot.registry import METRICS


def _values(probs: Tensor, labels: Tensor) -> Tensor:
    return top_label(probs, labels)[1].double()


def _of_top(confidence: Tensor, correct: Tensor, weights: Tensor | None = None) -> Tensor:
    return mean(correct.double(), weights)


@METRICS.register(
    "accuracy",
    label="accuracy",
    lower_is_better=False,
    range=(0.0, 1.0),
    unit="%",
    reference="share of right predictions",
    sums=sums_of(_values),
    finish=finish_mean,
    each=_values,
    top=_of_top,
    interval="exact",
)
def accuracy(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Share of examples whose most likely class is the true one.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 1], float64; higher is better.

    Example:
        >>> from torch import tensor
        >>> accuracy(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    return _of_top(*checked_top(probs, labels, weights))
