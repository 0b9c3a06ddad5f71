"""Metrics of the top label that are functions of equal-width bins: one state, several ways to read it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from surefoot.metrics._binning import bin_sums
from surefoot.metrics._input import Values
from surefoot.metrics._sums import FinishFunction
from surefoot.metrics._top import checked_top, sums_of_top
from surefoot.metrics._weights import ratio


def binned(finish: FinishFunction, *, interval: str = "none") -> dict[str, Any]:
    """Return the facts of a metric that the bins' counts, confidences and hits determine.

    Args:
        finish: Maps sums of shape ``(3, n_bins)``, or with weights ``(7, n_bins)``, to the metric.
        interval: The kind that covers, if there is one.

    Returns:
        ``sums``, ``finish``, ``top``, ``bins`` and the kind of ``interval``, to be declared at registration.
    """

    def of_top(confidence: Tensor, correct: Tensor, weights: Tensor | None = None, *, n_bins: int = 15) -> Tensor:
        return finish(bin_sums(confidence, correct, n_bins, weights))

    def sums(confidence: Tensor, correct: Tensor, weights: Tensor | None = None, *, n_bins: int) -> Tensor:
        return bin_sums(confidence, correct, n_bins, weights)

    return {"sums": sums_of_top(sums), "finish": finish, "top": of_top, "bins": True, "interval": interval}


def of_bins(probs: Values, labels: Values, weights: Values | None, n_bins: int) -> Tensor:
    """Check the input, and return the sums of its bins.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts; None where all count alike.
        n_bins: Number of bins.

    Returns:
        Shape ``(3, n_bins)``, or with weights ``(7, n_bins)``.
    """
    confidence, correct, counts = checked_top(probs, labels, weights)
    return bin_sums(confidence, correct, n_bins, counts)


def gaps(sums: Tensor) -> tuple[Tensor, Tensor]:
    """Return each bin's share of the examples and its mean confidence minus its accuracy, 0 where it is empty.

    Args:
        sums: Shape ``(3, …, n_bins)``: count, sum of confidence, sum of correctness; more rows with weights.

    Returns:
        Two tensors of shape ``(…, n_bins)``.
    """
    count, confidence, correct = sums[:3].unbind()
    return count / count.sum(-1, keepdim=True), ratio(confidence - correct, count)
