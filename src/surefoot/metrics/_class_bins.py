"""Equal-width bins of every class at once, in one walk through memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.metrics._binning import Array, check_bins, index_of, weighted_sums
from surefoot.metrics._input import check_rows, tolerance

_ENTRIES = 1 << 18  # so that what several passes go over stays in the processor's cache
_WIDE = (torch.float32, torch.float64)


def class_bin_sums(probs: Tensor, labels: Tensor, n_bins: int, weights: Tensor | None = None) -> Tensor:
    """Do what ``bin_sums`` does for each class k, with p_k as the confidence and y = k as the correctness.

    Rows are checked on the way, since they are in the cache then. One thread: most steps keep Python's lock.

    Args:
        probs: Class probabilities, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        n_bins: Number of bins.
        weights: How much each row counts; None where all count alike.

    Returns:
        Shape ``(3, classes, n_bins)``, float64; with weights ``(7, classes, n_bins)``, as ``_weights.py`` says.

    Raises:
        InputError: If a row has a negative entry or does not sum to one.
        OptionError: If there is no bin.

    Example:
        >>> class_bin_sums(torch.tensor([[0.75, 0.25]]), torch.tensor([0]), 2)[1]
        tensor([[0.0000, 0.7500],
                [0.2500, 0.0000]], dtype=torch.float64)
    """
    check_bins(n_bins)
    probs, truth = probs.detach(), labels.cpu().numpy()
    if weights is not None:
        return _weighted(probs, truth, n_bins, weights.cpu().numpy())
    table = _sums(probs, truth, n_bins)
    # What is above the first bin was counted; the rest of the examples, and of the sum of p_k, is in it.
    table[0, :, 0] = len(truth) - table[0, :, 1:].sum(1)
    table[1, :, 0] = np.maximum(table[1, :, 0] - table[1, :, 1:].sum(1), 0)
    return torch.from_numpy(table)


def _weighted(probs: Tensor, truth: np.ndarray[Any, Any], n_bins: int, weights: Array) -> Tensor:
    """Add every entry up where it belongs: what subtraction leaves of sums of weights is never quite 0."""
    n_classes = probs.shape[1]
    found = torch.zeros(7, n_classes * n_bins, dtype=torch.float64)
    for start, p, wide in _chunks(probs):
        check_rows(probs[start : start + len(p)], start)
        here = slice(start, start + len(p))
        cell = index_of(wide, n_bins) + n_bins * np.arange(n_classes)
        hits = truth[here, None] == np.arange(n_classes)
        weight = np.repeat(weights[here], n_classes)
        found += weighted_sums(cell.reshape(-1), wide.reshape(-1), hits.reshape(-1), weight, n_classes * n_bins)
    return found.view(7, n_classes, n_bins)


def _sums(probs: Tensor, truth: np.ndarray[Any, Any], n_bins: int) -> Array:
    """Return the table, but with the sum of all p_k where the first bin's belongs."""
    n_classes = probs.shape[1]
    size = n_classes * n_bins
    table, sums, p_y = np.zeros((3, size)), np.zeros(n_classes), np.empty(len(truth))
    ones = np.ones(n_classes, np.float64 if probs.dtype == torch.float64 else np.float32)
    cells: list[np.ndarray[Any, Any]] = []
    values: list[Array] = []

    def count() -> None:
        cell, value = np.concatenate(cells), np.concatenate(values)
        table[0] += np.bincount(cell, minlength=size)
        table[1] += np.bincount(cell, weights=value, minlength=size)
        cells.clear()
        values.clear()

    for start, p, wide in _chunks(probs):
        sums += wide.sum(0)
        place, value = _above_first_bin(p, wide, n_bins)
        with np.errstate(invalid="ignore"):  # infinities of both signs
            off = np.abs(p @ ones - 1).max()  # as a product three times as fast as a sum
        # Written so that NaN fails: a comparison with it is false.
        if not (off <= tolerance(probs.dtype) and value.min(initial=0) >= 0):
            check_rows(probs[start : start + len(p)], start)
        cells.append(place % n_classes * n_bins + index_of(value, n_bins))
        values.append(value)
        here = slice(start, start + len(p))
        p_y[here] = wide[np.arange(len(p)), truth[here]]
        if sum(map(len, cells)) > size:  # a table with room for few is not worth a pass
            count()
    if cells:
        count()
    table[2] = np.bincount(truth * n_bins + index_of(p_y, n_bins), minlength=size)
    shaped: Array = table.reshape(3, n_classes, n_bins)
    shaped[1, :, 0] = sums
    return shaped


def _chunks(probs: Tensor) -> Iterator[tuple[int, np.ndarray[Any, Any], Array]]:
    """Return the number of the first row, the rows in single or double precision, and in double, chunk by chunk."""
    rows = max(1, _ENTRIES // probs.shape[1])
    space = np.empty((min(rows, len(probs)), probs.shape[1]))
    for start in range(0, len(probs), rows):
        part = probs[start : start + rows]
        p = np.ascontiguousarray((part if part.dtype in _WIDE else part.float()).cpu().numpy())
        wide = space[: len(p)]
        np.copyto(wide, p)
        yield start, p, wide


def _above_first_bin(p: np.ndarray[Any, Any], wide: Array, n_bins: int) -> tuple[np.ndarray[Any, Any], Array]:
    """Find the entries that may be above the first bin: at most n_bins of a row, so few of many classes.

    The bits of floats from 0 upward are ordered like whole numbers, and those of negative floats and NaN come after
    all of them: one comparison finds also what must not be there.
    """
    bits: Any = np.uint32 if p.dtype == np.float32 else np.uint64
    least = np.array(0.999 / n_bins, p.dtype).view(bits)
    place = _places(np.greater_equal(p.view(bits), least).reshape(-1))
    return place, wide.reshape(-1)[place]


def _places(found: np.ndarray[Any, np.dtype[np.bool_]]) -> np.ndarray[Any, Any]:
    """Do what ``np.flatnonzero`` does, eight at a time: faster where little is found."""
    eights = len(found) // 8 * 8
    words = np.flatnonzero(found[:eights].view(np.uint64) != 0)
    near = (words[:, None] * 8 + np.arange(8)).reshape(-1)
    return np.concatenate([near[found[near]], eights + np.flatnonzero(found[eights:])])
