"""What scores and weights must be, and percentages as shares of 1."""

from __future__ import annotations

import numpy as np

from surefoot.errors import InputError
from surefoot.sources.labels import Array

MOST_ROUNDED = 5.0  # percent that the sum of rounded percentages may be off


def check_scores(scores: Array, where: str) -> Array:
    """Refuse what cannot be scores.

    Args:
        scores: Shape ``(n, classes)``, or ``(n,)`` for two classes: the probability of class 1, or its logit.
        where: The file, for messages.

    Returns:
        The same as float32 or float64.

    Raises:
        InputError: If they are no numbers, or not one row of at least two per example.
    """
    if scores.dtype.kind not in "fiu":
        raise InputError(f"Expected numbers as scores, but got {scores.dtype} in {where}. Save plain arrays.")
    if scores.ndim not in (1, 2):
        raise InputError(
            f"Expected scores (n, classes) and one label per row, but got scores {scores.shape} in {where}. Save "
            "arrays that belong together."
        )
    if scores.ndim == 2 and scores.shape[1] < 2:
        raise InputError(
            f"Expected at least two classes, but the scores are {scores.shape} in {where}. Give a column per class, or "
            "for two classes a flat array with the probability of class 1."
        )
    wanted = np.float32 if scores.dtype.kind == "f" and scores.dtype.itemsize <= 4 else np.float64
    return scores.astype(wanted, copy=False)


def check_weights(weights: Array | None, where: str) -> Array:
    """Refuse what cannot be weights.

    Args:
        weights: One number per row.
        where: The file, for messages.

    Returns:
        The same as float64.

    Raises:
        InputError: If they are no numbers, or several per row.
    """
    if weights is None or weights.dtype.kind not in "fiub" or weights.ndim != 1:
        got = "none" if weights is None else f"{weights.dtype} {weights.shape}"
        raise InputError(f"Expected a number per row as weights, but got {got} in {where}. Save one number per row.")
    return weights.astype(np.float64, copy=False)


def from_percent(scores: Array) -> Array:
    """Make probabilities of percentages; those that were rounded are brought back to a sum of 1."""
    if scores.ndim == 1:
        return scores / 100
    sums = scores.sum(axis=1, keepdims=True, dtype=np.float64)
    rounded = np.abs(sums - 100) <= rounding(scores.shape[1])
    return (scores / np.where(rounded, sums, 100)).astype(scores.dtype)


def rounding(n_classes: int) -> float:
    """Return how far from 100 the sum of percentages may be that were rounded to whole numbers."""
    return min(MOST_ROUNDED, 0.5 * n_classes)
