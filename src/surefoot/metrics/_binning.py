"""The only binning: equal-width bins (a, b], and what falls into them."""

from __future__ import annotations

import torch
from torch import Tensor

from surefoot.errors import OptionError


def bin_sums(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """Count examples and add up confidence and correctness in equal-width bins (a, b].

    The index is ⌈confidence · n_bins⌉ − 1; a confidence of exactly 0 goes to the first bin, 1 to the last.

    Args:
        confidence: Values in [0, 1], shape ``(n,)``.
        correct: 1 where the prediction is right, shape ``(n,)``.
        n_bins: Number of bins.

    Returns:
        Shape ``(3, n_bins)``, float64: count, sum of confidence, sum of correctness.

    Raises:
        OptionError: If there is no bin.

    Example:
        >>> bin_sums(torch.tensor([0.0, 0.5, 0.6, 1.0]), torch.tensor([0, 1, 0, 1]), 2)[0]
        tensor([2., 2.], dtype=torch.float64)
    """
    if n_bins < 1:
        raise OptionError(f"Expected n_bins ≥ 1, but got {n_bins}. 15 is usual.")
    confidence = confidence.double()
    index = ((confidence * n_bins).ceil().long() - 1).clamp_(0, n_bins - 1)
    rows = (torch.ones_like(confidence), confidence, correct.double())
    return torch.stack([torch.bincount(index, weights=row, minlength=n_bins) for row in rows])


def top_label(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Give each example's confidence and whether its most likely class (the first of equals) is the true one.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Two tensors of shape ``(n,)``.
    """
    confidence, predicted = probs.max(1)
    return confidence, predicted == labels
