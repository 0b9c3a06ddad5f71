"""Top-k accuracy."""

from __future__ import annotations

from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._means import finish_mean, mean_of, sums_of
from surefoot.registry import METRICS


def _values(probs: Tensor, labels: Tensor, *, k: int) -> Tensor:
    if k < 1:
        raise OptionError(f"Expected k ≥ 1, but got {k}. 5 is usual.")
    of_truth = probs.gather(1, labels[:, None])
    ahead = (probs > of_truth).sum(1)
    # Of equals the lower class number comes first, as in accuracy.
    tied = (probs == of_truth).cumsum(1).gather(1, labels[:, None]).squeeze(1) - 1
    return (ahead + tied < k).double()


@METRICS.register(
    "top_k_accuracy",
    label="top-k accuracy",
    lower_is_better=False,
    range=(0.0, 1.0),
    unit="%",
    reference="share of examples whose class is among the k likeliest",
    sums=sums_of(_values),
    finish=finish_mean,
    each=_values,
    interval="exact",
)
def top_k_accuracy(probs: Values, labels: Values, weights: Values | None = None, *, k: int = 5) -> Tensor:
    """Share of examples whose true class is among the k most likely ones.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        k: How many classes may be named; with 1 it is the accuracy.

    Returns:
        Scalar in [0, 1], float64; higher is better.

    Example:
        >>> from torch import tensor
        >>> top_k_accuracy(tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), tensor([1, 2]), k=2)
        tensor(0.5000, dtype=torch.float64)
    """
    return mean_of(_values, probs, labels, weights, k=k)
