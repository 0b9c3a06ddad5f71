"""Negative log-likelihood."""

from __future__ import annotations

from torch import Tensor

from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, mean_of, sums_of
from surefoot.registry import METRICS


def _values(probs: Tensor, labels: Tensor) -> Tensor:
    return -probs.gather(1, labels[:, None]).squeeze(1).double().log()


def _of_logs(log_probs: Tensor, labels: Tensor) -> Tensor:
    return -log_probs.gather(1, labels[:, None]).squeeze(1)


@METRICS.register(
    "nll",
    label="NLL",
    lower_is_better=True,
    range=(0.0, float("inf")),
    unit="nats",
    reference="Good 1952",
    sums=sums_of(_values),
    finish=finish_mean,
    each=_values,
    each_of_logs=_of_logs,
    interval="parts",
)
def nll(probs: Values, labels: Values, weights: Values | None = None) -> Tensor:
    """Negative log-likelihood: mean of −log p(true class), in nats.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one. Where the true class has exactly 0,
            the result is infinite, as it should be; take the softmax in float64 to avoid a rounded 0.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.

    Returns:
        Scalar ≥ 0, float64; lower is better.

    Example:
        >>> from torch import tensor
        >>> nll(tensor([[0.5, 0.5]]), tensor([0]))
        tensor(0.6931, dtype=torch.float64)
    """
    return mean_of(_values, probs, labels, weights)
