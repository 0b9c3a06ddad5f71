"""The only binning: equal-width bins (a, b], equal-mass groups, and what falls into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._weights import as_counts

Array = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]
# So that what several passes go over stays in the processor's cache.
_AT_ONCE = 1 << 17


MOST_BINS = 10_000  # intervals need a thousand times as many numbers


def check_bins(n_bins: int) -> None:
    """Refuse fewer than one bin."""
    if not 1 <= n_bins <= MOST_BINS:
        raise OptionError(f"Expected n_bins from 1 to {MOST_BINS:,}, but got {n_bins:,}. 15 is usual.")


def bin_index(values: Tensor, n_bins: int) -> Tensor:
    """Return the equal-width bin (a, b] of each value: ⌈value · n_bins⌉ − 1, with exactly 0 in the first bin.

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
    return torch.from_numpy(index_of(values.detach().double().cpu().numpy(), n_bins))


def _ceiling(values: Array, n_bins: int) -> Array:
    # In float64: the product in float32 can round a value into the neighbouring bin. In NumPy: on small arrays it is
    # several times faster than torch, which starts its threads for each step.
    found = values * n_bins
    np.ceil(found, out=found)
    return np.clip(found, 0, n_bins, out=found)


def index_of(values: Array, n_bins: int) -> Places:
    """Do what :func:`bin_index` does, in NumPy and unchecked."""
    return np.maximum(_ceiling(values, n_bins) - 1, 0).astype(np.int64)


def bin_sums(confidence: Tensor, correct: Tensor, n_bins: int, weights: Tensor | None = None) -> Tensor:
    """Count examples and add up confidence and correctness in equal-width bins (a, b].

    Args:
        confidence: Values in [0, 1], shape ``(n,)``.
        correct: 1 where the prediction is right, shape ``(n,)``.
        n_bins: Number of bins.
        weights: How much each row counts; None where all count alike.

    Returns:
        Shape ``(3, n_bins)``, float64: count, sum of confidence, sum of correctness; with weights ``(7, n_bins)``, as
        ``_weights.py`` says.

    Raises:
        OptionError: If there is no bin.

    Example:
        >>> bin_sums(torch.tensor([0.0, 0.5, 0.6, 1.0]), torch.tensor([0, 1, 0, 1]), 2)[0]
        tensor([2., 2.], dtype=torch.float64)
    """
    check_bins(n_bins)
    half = confidence.dtype not in (torch.float32, torch.float64)  # NumPy does not know all of them
    sure = (confidence.double() if half else confidence).detach().cpu().numpy()
    hits_of = correct.detach().cpu().numpy()
    if weights is not None:
        value = sure.astype(np.float64)
        return weighted_sums(index_of(value, n_bins), value, hits_of != 0, weights.cpu().numpy(), n_bins)
    size = n_bins + 1  # exactly 0 is counted apart, and joins the first bin in the end

    def tables_of(start: int) -> Array:
        here = slice(start, start + _AT_ONCE)
        value = sure[here].astype(np.float64)
        cell = _ceiling(value, n_bins).astype(np.int64)
        cell += size * (hits_of[here] != 0)  # misses first, then hits
        return np.stack([np.bincount(cell, weights, minlength=2 * size) for weights in (None, value)])

    tables = np.sum([tables_of(start) for start in range(0, len(sure), _AT_ONCE)], axis=0).reshape(2, 2, size)
    tables[..., 1] += tables[..., 0]
    (n, hits), (confidences, of_hits) = tables[0, :, 1:], tables[1, :, 1:]
    return torch.from_numpy(np.stack([n + hits, confidences + of_hits, hits]))


def weighted_sums(cell: Places, values: Array, hits: Marks, weights: Array, size: int) -> Tensor:
    """Add up in cells what ``_weights.py`` says, shape ``(7, size)``."""
    squares = weights * weights
    rows = (weights, weights * values, weights * hits, squares, squares * hits, None, weights != np.floor(weights))
    return torch.from_numpy(np.stack([np.bincount(cell, row, minlength=size).astype(np.float64) for row in rows]))


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


def equal_mass_sums(confidence: Tensor, correct: Tensor, n_bins: int, weights: Tensor | None = None) -> Tensor:
    """Do what :func:`bin_sums` does for bins of equal mass: sorted examples cut into near-equal runs.

    The first ``n mod n_bins`` runs get one example more. Where a cut falls among equal confidences, each side gets
    its share of them with their mean correctness, so no example is dropped and no order of ties is preferred.

    Args:
        confidence: Values in [0, 1], shape ``(n,)``.
        correct: 1 where the prediction is right, shape ``(n,)``.
        n_bins: Number of bins; some stay empty when there are fewer examples.
        weights: How often each row counts; scaled to a mean of 1 where they are not all whole numbers.

    Returns:
        Shape ``(3, n_bins)``, float64: count, sum of confidence, sum of correctness.

    Example:
        >>> equal_mass_sums(torch.tensor([0.5, 1.0, 1.0]), torch.tensor([1, 1, 0]), 2)[2]
        tensor([1.5000, 0.5000], dtype=torch.float64)
    """
    check_bins(n_bins)
    if weights is not None:
        return _equal_weight_sums(confidence, correct, n_bins, weights)
    ordered, means, _ = tied_means(confidence.double(), correct)
    size, more = divmod(len(ordered), n_bins)
    count = torch.full((n_bins,), float(size), dtype=torch.float64)
    count[:more] += 1
    ends = count.cumsum(0).long()

    def per_run(values: Tensor) -> Tensor:
        before = torch.cat([values.new_zeros(1), values.cumsum(0)])
        return before[ends] - before[ends - count.long()]

    return torch.stack([count, per_run(ordered), per_run(means)])


def _equal_weight_sums(confidence: Tensor, correct: Tensor, n_bins: int, weights: Tensor) -> Tensor:
    """Cut where repeated rows would be cut; a row on a cut gives each side its share."""
    value, weight = confidence.double().numpy(), as_counts(weights).numpy()
    groups, place = np.unique(value, return_inverse=True)
    mass = np.bincount(place, weight).astype(np.float64)
    hits = np.bincount(place, weight * correct.double().numpy()).astype(np.float64)
    size, more = divmod(np.round(weight.sum()), n_bins)
    steps = np.arange(n_bins + 1)
    ends = size * steps + np.minimum(steps, more)
    filled = np.concatenate([[0.0], mass.cumsum()])

    def per_run(of_groups: Array) -> Array:
        return np.diff(np.interp(ends, filled, np.concatenate([[0.0], of_groups.cumsum()])))

    return torch.from_numpy(np.stack([np.diff(ends), per_run(mass * groups), per_run(hits)]))


def quantile_sums(values: Tensor, correct: Tensor, n_bins: int, weights: Tensor | None = None) -> Tensor:
    """Do what :func:`bin_sums` does for bins of about equal mass that never part equal values.

    Args:
        values: Any numbers, shape ``(n,)``.
        correct: 1 where it happened, shape ``(n,)``.
        n_bins: At most so many bins; fewer where many values are equal.
        weights: How much each row counts; None where all count alike.

    Returns:
        Shape ``(3, bins)``, float64: count, sum of values, sum of correctness; no bin is empty. With weights
        ``(7, bins)``.

    Example:
        >>> quantile_sums(torch.tensor([0.1, 0.1, 0.1, 0.9]), torch.tensor([0, 1, 0, 1]), 2)[0]
        tensor([3., 1.], dtype=torch.float64)
    """
    check_bins(n_bins)
    value, hits = values.detach().double().cpu().numpy(), correct.detach().double().cpu().numpy()
    ordered = np.sort(value)
    if weights is not None:
        weight = weights.cpu().numpy()
        ends = np.unique(_ends(value, as_counts(weights).cpu().numpy(), n_bins))
        _, cell = np.unique(np.searchsorted(ends, value), return_inverse=True)
        return weighted_sums(cell, value, hits != 0, weight, 0)
    # The last value of each run but the last one; equal values end in the same run.
    ends = np.unique(ordered[np.arange(1, n_bins) * len(ordered) // n_bins - 1]) if len(ordered) >= n_bins else ordered
    _, cell = np.unique(np.searchsorted(np.unique(ends), value), return_inverse=True)
    return torch.from_numpy(
        np.stack([np.bincount(cell, weights) for weights in (None, value, hits)]).astype(np.float64)
    )


def _ends(values: Array, counts: Array, n_bins: int) -> Array:
    """Return the last value of each run of equal weight, where repeated rows would have it."""
    order = np.argsort(values)
    filled = counts[order].cumsum()
    n = np.round(filled[-1])
    if n < n_bins:
        return values
    wanted = np.arange(1, n_bins) * n // n_bins - 1e-9 * n  # less a hair: what is added up to 7 may be 6.9999…
    found: Array = values[order][np.searchsorted(filled, wanted).clip(max=len(values) - 1)]
    return found
