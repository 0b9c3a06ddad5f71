"""How many of the new rows sets cover by chance, where all rows are exchangeable: the exact law."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, gammaln, logsumexp, ndtr

from surefoot.prediction_sets._quantile import rank_of

_EXACT = 1_000_000  # rows, beyond which the normal distribution is as good


def coverage_range(n: int, coverage: float, level: float = 0.95) -> tuple[float, float]:
    """Return between which values the coverage lies, over rows to fit on.

    Given these rows, the coverage of sets with continuous scores is drawn from Beta(k, n + 1 − k) with
    k = ⌈(n + 1)(1 − α)⌉ (Vovk 2012).

    Args:
        n: How many rows the threshold rests on.
        coverage: That was asked for.
        level: How much of the distribution to take, in its middle.

    Returns:
        Both ends; 1 and 1 where there are too few rows.

    Example:
        >>> [round(end, 3) for end in coverage_range(1000, 0.9)]
        [0.881, 0.918]
    """
    k = rank_of(n, coverage)
    if k > n:
        return 1.0, 1.0
    tail = (1 - level) / 2
    return float(betaincinv(k, n + 1 - k, tail)), float(betaincinv(k, n + 1 - k, 1 - tail))


def chance_of_so_few(hits: int, rows: int, n: int, coverage: float) -> float:
    """Return how likely it is that so few new rows or fewer are covered, if all rows are exchangeable.

    Their number is beta-binomial. Where scores tie it is larger, and this p-value too large rather than too small.

    Args:
        hits: Covered rows.
        rows: New rows.
        n: How many rows the threshold rests on.
        coverage: That was asked for.

    Returns:
        The p-value.

    Example:
        >>> round(chance_of_so_few(1, 2, 1, 0.5), 4)  # k = 1 of 1: uniform coverage, so 0, 1 and 2 are equally likely
        0.6667
    """
    k = rank_of(n, coverage)
    if k > n:
        return 1.0
    a, b = k, n + 1 - k
    if rows > _EXACT:
        mean = a / (a + b)
        variance = mean * (1 - mean) * (1 / rows + (1 - 1 / rows) / (a + b + 1))
        return float(ndtr((hits / rows - mean) / math.sqrt(variance)))
    x = np.arange(hits + 1)
    logs = gammaln(rows + 1) - gammaln(x + 1) - gammaln(rows - x + 1) + gammaln(x + a) + gammaln(rows - x + b)
    constant = gammaln(rows + a + b) + gammaln(a) + gammaln(b) - gammaln(a + b)
    return min(1.0, float(np.exp(logsumexp(logs) - constant)))


def chance_of_so_few_at(hits: float, rows: float, coverage: float) -> float:
    """Return how likely it is that so few rows or fewer are covered, if each is with probability ``coverage``.

    Args:
        hits: Covered rows; need not be whole.
        rows: Of how many, or what they are worth.
        coverage: How often they should be.

    Returns:
        The binomial p-value.

    Example:
        >>> chance_of_so_few_at(0, 3, 0.5), chance_of_so_few_at(3, 3, 0.5)
        (0.125, 1.0)
    """
    return 1.0 if hits >= rows else float(betainc(rows - hits, hits + 1, 1 - coverage))
