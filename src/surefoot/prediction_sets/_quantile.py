"""How large a score may be for its class to be in the set: the quantile of split conformal prediction, exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from surefoot.errors import InputError, OptionError

Array = np.ndarray[Any, Any]
WeightsAre = Literal["importance", "counts"]


def check_coverage(coverage: float) -> None:
    """Refuse a coverage that is no probability."""
    if not 0 < coverage < 1:
        raise OptionError(f"Expected a coverage between 0 and 1, but got {coverage}. 0.9 is usual.")


def rank_of(n: int, coverage: float) -> int:
    """Return which of n scores, from the smallest, is the threshold; n + 1 stands for infinity.

    Args:
        n: How many scores there are.
        coverage: How often sets are to hold the true class.

    Returns:
        ⌈(n + 1) · coverage⌉, with coverage as the decimal number that was written: 0.07 · 100 is 7, not a little more.

    Example:
        >>> rank_of(99, 0.07), rank_of(9, 0.9), rank_of(8, 0.9)
        (7, 9, 9)
    """
    return math.ceil((n + 1) * Fraction(str(coverage)))


def least_rows(coverage: float) -> int:
    """Return how many rows a finite threshold needs.

    Example:
        >>> least_rows(0.9), least_rows(0.95), least_rows(0.99)
        (9, 19, 99)
    """
    share = Fraction(str(coverage))
    return math.ceil(share / (1 - share))


def threshold(
    scores: Array, coverage: float, weights: Array | None = None, *, weights_are: WeightsAre = "importance"
) -> float:
    r"""Return the smallest score that enough of the scores do not exceed; infinity where there are too few.

    .. math:: \inf\{q : \textstyle\sum_i w_i [s_i \le q] \ge (1 - \alpha)(\sum_i w_i + w)\}

    Without weights all are 1, which is the ⌈(n + 1)(1 − α)⌉-th smallest score. With them w, that of the row to come, is
    the largest weight: rows of any weight up to it are then covered. Where weights are counts it is 1, as if every row
    stood there as often as its weight says.

    Args:
        scores: Of the true classes, shape ``(n,)``.
        coverage: How often sets are to hold the true class.
        weights: How much each row counts, shape ``(n,)``.
        weights_are: What weights mean.

    Returns:
        The threshold.

    Example:
        >>> scores = np.arange(1.0, 10.0)
        >>> threshold(scores, 0.9), threshold(scores[:8], 0.9), threshold(scores, 0.5)
        (9.0, inf, 5.0)
        >>> threshold(scores[:3], 0.5, np.array([1, 5, 3]), weights_are="counts")  # 1 2 2 2 2 2 3 3 3
        2.0
    """
    if weights is None:
        rank = rank_of(len(scores), coverage)
        return math.inf if rank > len(scores) else float(np.partition(scores, rank - 1)[rank - 1])
    check_weights(weights, len(scores))
    if weights_are == "importance":  # equal ones become 1, and the sums of those are exact
        weights = weights / weights.max()
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(weights[order], dtype=np.float64)
    wanted = float(Fraction(str(coverage)) * (Fraction(float(sums[-1])) + 1))
    place = int(np.searchsorted(sums, wanted))
    return math.inf if place == len(scores) else float(scores[order[place]])


def check_weights(weights: Array, n: int) -> None:
    """Refuse what cannot be weights: one per row, finite, not negative, not all 0."""
    if weights.shape != (n,):
        raise InputError(f"Expected one weight per row, but got {weights.shape} for {n} rows. Pass (n,).")
    off = ~np.isfinite(weights) | (weights < 0)
    if off.any():
        row = int(off.argmax())
        raise InputError(f"Expected weights that are not negative, but row {row} has {weights[row]}. Correct it.")
    if not weights.any():
        raise InputError("Expected a weight above 0, but all are 0. Leave weights out for rows that count alike.")
