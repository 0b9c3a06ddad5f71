"""Brier score."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, mean_of, sums_of
from surefoot.registry import METRICS


def squared_distance(probs: Tensor, labels: Tensor) -> Tensor:
    """Return each example's squared distance from its one-hot label.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Shape ``(n,)``, float64.
    """
    probs = probs.double()
    of_truth = probs.gather(1, labels[:, None]).squeeze(1)
    return probs.square().sum(1) - 2 * of_truth + 1


@METRICS.register(
    "brier",
    label="Brier score",
    lower_is_better=True,
    range=(0.0, 2.0),
    unit="",
    reference="Brier 1950",
    sums=sums_of(squared_distance),
    finish=finish_mean,
    each=squared_distance,
    interval="parts",
)
def brier(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Brier score: mean squared distance between predicted and one-hot probabilities, summed over classes.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar in [0, 2], float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> brier(tensor([[0.5, 0.5]]), tensor([0]))
        tensor(0.5000, dtype=torch.float64)
    """
    return mean_of(squared_distance, probs, labels, weights)
