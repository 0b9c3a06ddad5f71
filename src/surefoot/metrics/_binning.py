"""The only binning: equal-width bins (a, b], equal-mass groups, and what falls into them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import OptionError


def check_bins(n_bins: int) -> None:
    """Refuse fewer than one bin."""
    if n_bins < 1:
        raise OptionError(f"Expected n_bins ≥ 1, but got {n_bins}. 15 is usual.")


def bin_index(values: Tensor, n_bins: int) -> Tensor:
    """Give the equal-width bin (a, b] of each value: ⌈value · n_bins⌉ − 1, with exactly 0 in the first bin.

    Args:
        values: In [0, 1], any shape.
        n_bins: Number of bins.

    Returns:
        Integers in [0, n_bins), int64, of the same shape.

    Example:
        >>> bin_index(torch.tensor([0.0, 0.5, 0.6, 1.0]), 2)
        tensor([0, 0, 1, 1])
    """
    check_bins(n_bins)
    # In float64: the product in float32 can round a value into the neighbouring bin.
    return (values.double() * n_bins).ceil_().long().sub_(1).clamp_(0, n_bins - 1)


def bin_sums(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """Count examples and add up confidence and correctness in equal-width bins (a, b].

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
    index = bin_index(confidence, n_bins)
    rows = (torch.ones_like(confidence), confidence, correct)
    return torch.stack([torch.bincount(index, weights=row.double(), minlength=n_bins) for row in rows])


def class_bin_sums(probs: Tensor, labels: Tensor, n_bins: int) -> Tensor:
    """Do what :func:`bin_sums` does for each class k, with p_k as the confidence and y = k as the correctness.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        n_bins: Number of bins.

    Returns:
        Shape ``(3, classes, n_bins)``, float64.
    """
    n_classes = probs.shape[1]
    cells = bin_index(probs, n_bins) + n_bins * torch.arange(n_classes)
    size = n_classes * n_bins
    count = torch.bincount(cells.flatten(), minlength=size).double()
    total = torch.bincount(cells.flatten(), weights=probs.flatten().double(), minlength=size)
    hits = torch.bincount(cells.gather(1, labels[:, None]).squeeze(1), minlength=size).double()
    return torch.stack([count, total, hits]).view(3, n_classes, n_bins)


def tied_means(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sort by key, and give examples with equal keys their common mean, so that the order of ties is of no account.

    Args:
        keys: What to sort by, ascending, shape ``(n,)``.
        values: What to average over ties, shape ``(n,)``.

    Returns:
        Sorted keys, values in that order with ties averaged, and the number of the tie group of each.

    Example:
        >>> tied_means(torch.tensor([0.5, 0.25, 0.5]), torch.tensor([1.0, 1.0, 0.0]))[1]
        tensor([1.0000, 0.5000, 0.5000], dtype=torch.float64)
    """
    ordered, order = keys.sort(stable=True)
    _, group, size = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    means = torch.bincount(group, weights=values[order].double()) / size
    return ordered, means[group], group


def equal_mass_sums(confidence: Tensor, correct: Tensor, n_bins: int) -> Tensor:
    """Do what :func:`bin_sums` does for bins of equal mass: sorted examples cut into near-equal runs.

    The first ``n mod n_bins`` runs get one example more. Where a cut falls among equal confidences, each side gets
    its share of them with their mean correctness, so no example is dropped and no order of ties is preferred.

    Args:
        confidence: Values in [0, 1], shape ``(n,)``.
        correct: 1 where the prediction is right, shape ``(n,)``.
        n_bins: Number of bins; some stay empty when there are fewer examples.

    Returns:
        Shape ``(3, n_bins)``, float64: count, sum of confidence, sum of correctness.

    Example:
        >>> equal_mass_sums(torch.tensor([0.5, 1.0, 1.0]), torch.tensor([1, 1, 0]), 2)[2]
        tensor([1.5000, 0.5000], dtype=torch.float64)
    """
    check_bins(n_bins)
    ordered, means, _ = tied_means(confidence.double(), correct)
    size, more = divmod(len(ordered), n_bins)
    count = torch.full((n_bins,), float(size), dtype=torch.float64)
    count[:more] += 1
    ends = count.cumsum(0).long()

    def per_run(values: Tensor) -> Tensor:
        before = torch.cat([values.new_zeros(1), values.cumsum(0)])
        return before[ends] - before[ends - count.long()]

    return torch.stack([count, per_run(ordered), per_run(means)])


def edges(n_bins: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Give the n_bins + 1 edges of the equal-width bins."""
    return np.arange(n_bins + 1) / n_bins
