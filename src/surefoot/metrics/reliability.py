"""What a reliability diagram shows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from surefoot.metrics._binning import bin_sums, top_label
from surefoot.metrics._sums import check


@dataclass(frozen=True)
class Reliability:
    """Equal-width bins of confidence: how many examples, how sure, how right. Empty bins have None."""

    count: list[int]
    confidence: list[float | None]
    accuracy: list[float | None]


def reliability(probs: Tensor, labels: Tensor, *, n_bins: int = 15) -> Reliability:
    """Compare confidence with accuracy, bin by bin.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        n_bins: Number of bins (a, b].

    Returns:
        The bins, from the least to the most confident.

    Example:
        >>> from torch import tensor
        >>> reliability(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]), n_bins=2)
        Reliability(count=[0, 2], confidence=[None, 0.75], accuracy=[None, 0.5])
    """
    count, confidence, correct = bin_sums(*top_label(*check(probs, labels)), n_bins).tolist()
    filled = [
        (int(n), c / n if n else None, a / n if n else None) for n, c, a in zip(count, confidence, correct, strict=True)
    ]
    return Reliability(*(list(column) for column in zip(*filled, strict=True)))
