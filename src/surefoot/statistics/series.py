"""Correlation of two series along training, with an interval that knows neighbours are alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from surefoot.statistics.seeds import NOTHING, Estimate

Array = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int64]]
N_RESAMPLED = 1000
LEAST = 8  # points below which an interval would say nothing


def pearson(x: Array, y: Array) -> float:
    """Return the linear correlation; NaN where one of the two does not vary.

    Args:
        x: Values.
        y: As many.

    Returns:
        Between −1 and 1.

    Example:
        >>> round(pearson(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 7.0])), 4)
        0.9934
    """
    return float(_pearson_of_rows(x, y))


def correlation(pairs: Iterable[tuple[float, ...]]) -> float:
    """Return Pearson's r of two series over the same moments; NaN for fewer than three or for constants.

    Args:
        pairs: The two values at every moment.

    Returns:
        Between −1 and 1.

    Example:
        >>> round(correlation([(1.0, 2.0), (2.0, 4.0), (3.0, 7.0)]), 4)
        0.9934
    """
    found = np.array(list(pairs), np.float64)
    return pearson(found[:, 0], found[:, 1]) if len(found) >= 3 else math.nan


def spearman(x: Array, y: Array) -> float:
    """Return the correlation of ranks, ties sharing their mean rank.

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


def _pearson_of_rows(x: Array, y: Array) -> Array:
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    size = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    with np.errstate(invalid="ignore"):
        found: Array = np.where(size > 0, (x * y).sum(-1) / np.where(size > 0, size, 1), math.nan)
    return found


def _ranks(values: Array) -> Array:
    """Rank; of equal values each gets the middle rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle: Array = counts.cumsum() - (counts - 1) / 2
    return middle[which]


def correlate(
    series: Sequence[tuple[Sequence[float], Sequence[float]]], statistic: Callable[[Array, Array], float]
) -> Estimate:
    """Correlate over all runs, with an interval that holds a moving-block bootstrap's and Fisher's.

    Blocks of neighbouring moments drawn together know any kind of dependence, but there are too few blocks in a short
    run: alone they hold the truth too rarely. Fisher's interval with the :func:`effective_size` in place of n does not
    need many, but takes the noise for Gaussian.

    Args:
        series: Two series over time per run, of equal length.
        statistic: :func:`pearson` or :func:`spearman`.

    Returns:
        The coefficient of all points together, and the least interval around both.
    """
    runs = [np.array(pair, dtype=np.float64) for pair in series if len(pair[0])]
    if sum(run.shape[1] for run in runs) < 3:
        return NOTHING
    both = np.concatenate(runs, axis=1)
    value = statistic(*both)
    if min(run.shape[1] for run in runs) < LEAST:
        return Estimate(value, n=len(runs))
    draw = np.random.default_rng(0)
    places = _resample([run.shape[1] for run in runs], draw)
    x, y = (_drawn_ranks(each, places) if statistic is spearman else each[places] for each in both)
    drawn = _pearson_of_rows(x, y)
    known = drawn[np.isfinite(drawn)]
    if not len(known) or not math.isfinite(value):
        return Estimate(value, n=len(runs))
    low, high = np.quantile(known, [0.025, 0.975])
    least, most = _fisher(value, runs, ranked=statistic is spearman)
    return Estimate(value, min(float(low), least), max(float(high), most), len(runs))


def effective_size(runs: Sequence[Array]) -> float:
    r"""Return how many independent points would tell as much about a correlation.

    .. math:: n_e = n / (1 + 2 \sum_k (1 - k/n) r_x(k) r_y(k))

    of each run, with its autocorrelations about the mean of all runs up to the first k where their product is not
    positive; later ones are noise.

    Args:
        runs: Two series each, shape ``(2, n)``.

    Returns:
        The sum over runs, at most the number of points.

    Example:
        >>> up_and_down = np.tile([1.0, -1.0], 8)  # r(1) < 0 of one series only
        >>> effective_size([np.stack([up_and_down, np.repeat([1.0, -1.0], 8)])])
        16.0
    """
    centre = np.concatenate(runs, axis=1).mean(1, keepdims=True)
    return sum(_effective_size_of_run(run - centre) for run in runs)


def _effective_size_of_run(run: Array) -> float:
    n = int(run.shape[1])
    power = np.abs(np.fft.rfft(run, 2 * n)) ** 2
    covariances = np.fft.irfft(power)[:, :n]
    if not (covariances[:, 0] > 0).all():
        return float(n)
    products = (covariances / covariances[:, :1]).prod(0)[1:]
    ends = np.flatnonzero(products <= 0)
    some = products[: ends[0]] if len(ends) else products
    factor = 1 + 2 * float(some @ (1 - np.arange(1, len(some) + 1) / n))
    return n / factor


def _fisher(value: float, runs: Sequence[Array], *, ranked: bool) -> tuple[float, float]:
    """Return tanh(artanh r ± t / √(n_e − 3)), with Student's t of n_e − 2 degrees since n_e is itself uncertain.

    Ranks spread by √(1 + r²/2) more (Bonett and Wright 2000).
    """
    if ranked:
        cuts = np.cumsum([run.shape[1] for run in runs])[:-1]
        ranks = np.stack([_ranks(values) for values in np.concatenate(runs, axis=1)])
        runs = np.split(ranks, cuts, axis=1)
    from scipy.special import stdtrit  # takes a while to import

    size = effective_size(runs)
    if size <= 3:
        return -1.0, 1.0
    spread = math.sqrt((1 + value**2 / 2 if ranked else 1) / (size - 3)) * float(stdtrit(size - 2, 0.975))
    z = math.atanh(max(-1 + 1e-12, min(1 - 1e-12, value)))
    return math.tanh(z - spread), math.tanh(z + spread)


def _resample(lengths: Sequence[int], draw: np.random.Generator) -> Places:
    """Put series together from random blocks of themselves, many times; blocks of about the square root of the length.

    Returns which points of all series, one behind the other, to take: shape ``(N_RESAMPLED, n)``.
    """
    found, before = [], 0
    for n in lengths:
        length = math.ceil(math.sqrt(n))
        starts = draw.integers(0, n - length + 1, (N_RESAMPLED, math.ceil(n / length)))
        found.append(before + (starts[:, :, None] + np.arange(length)).reshape(N_RESAMPLED, -1)[:, :n])
        before += n
    return np.concatenate(found, axis=1)


def _drawn_ranks(values: Array, places: Places) -> Array:
    """Return ``_ranks(values[places])`` by counting how often each value was drawn, which takes no sorting."""
    distinct, which = np.unique(values, return_inverse=True)
    rows, n = len(places), len(distinct)
    drawn = which[places]
    counts = np.bincount((drawn + n * np.arange(rows)[:, None]).ravel(), minlength=rows * n).reshape(rows, n)
    middle: Array = counts.cumsum(1) - (counts - 1) / 2
    return np.take_along_axis(middle, drawn, 1)
