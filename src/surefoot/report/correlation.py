"""Correlation of two series along training, with an interval that knows neighbours are alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
N_RESAMPLED = 1000
LEAST = 8  # points below which an interval would say nothing


@dataclass(frozen=True)
class Correlation:
    """A coefficient and its 95 % interval; None where there are too few points."""

    value: float
    low: float | None
    high: float | None


def pearson(x: Array, y: Array) -> float:
    """Give the linear correlation; NaN where one of the two does not vary.

    Args:
        x: Values.
        y: As many.

    Returns:
        Between −1 and 1.

    Example:
        >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 7.0])), 4)
        0.9934
    """
    x, y = x - x.mean(), y - y.mean()
    size = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / size if size > 0 else math.nan


def spearman(x: Array, y: Array) -> float:
    """Give the correlation of ranks, ties sharing their mean rank.

    Args:
        x: Values.
        y: As many.

    Returns:
        Between −1 and 1; 1 for any increasing relation.

    Example:
        >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 1000.0]))
        1.0
    """
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Array = (last - (counts - 1) / 2)[inverse]
    return ranks


def correlate(
    series: Sequence[tuple[Sequence[float], Sequence[float]]], statistic: Callable[[Array, Array], float]
) -> Correlation:
    """Correlate over all runs, with a moving-block bootstrap: blocks of neighbouring moments are drawn together.

    Args:
        series: Two series over time per run, of equal length.
        statistic: :func:`pearson` or :func:`spearman`.

    Returns:
        The coefficient of all points together, and its percentile interval.
    """
    runs = [np.array(pair, dtype=np.float64) for pair in series if len(pair[0])]
    if sum(run.shape[1] for run in runs) < 3:
        return Correlation(math.nan, None, None)
    value = statistic(*np.concatenate(runs, axis=1))
    if min(run.shape[1] for run in runs) < LEAST:
        return Correlation(value, None, None)
    draw = np.random.default_rng(0)
    drawn = [statistic(*np.concatenate([_resample(run, draw) for run in runs], axis=1)) for _ in range(N_RESAMPLED)]
    known = [found for found in drawn if math.isfinite(found)]
    if not known:
        return Correlation(value, None, None)
    low, high = np.quantile(known, [0.025, 0.975])
    return Correlation(value, float(low), float(high))


def _resample(run: Array, draw: np.random.Generator) -> Array:
    """Put a series together from random blocks of itself; blocks of about the square root of its length."""
    n = run.shape[1]
    length = math.ceil(math.sqrt(n))
    starts = draw.integers(0, n - length + 1, math.ceil(n / length))
    places = (starts[:, None] + np.arange(length)).ravel()[:n]
    return run[:, places]
