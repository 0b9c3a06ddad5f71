"""Means, differences and ratios over seeds.

Two methods with the same seed share initial weights and the order of examples, so whatever compares them is paired by
seed. Intervals are at 95 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

N_RESAMPLED = 10_000


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of n values; one value has no deviation, and the mean of none is NaN."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval where there is one, over n seeds or runs; NaN where nothing is known."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1

    @property
    def is_known(self) -> bool:
        """Whether there is a number."""
        return not math.isnan(self.value)

    def __format__(self, spec: str) -> str:
        """Write the number alone; one that is not known says so."""
        return format(self.value, spec).replace("%", " %") if self.is_known else "unknown"


NOTHING = Estimate(math.nan, n=0)


def spread(values: Mapping[int, float] | Iterable[float]) -> Spread:
    """Return mean and standard deviation.

    Args:
        values: One per seed, or by seed.

    Returns:
        Both, and how many values there are.

    Example:
        >>> spread([1.0, 2.0, 3.0])
        Spread(mean=2.0, sd=1.0, n=3)
        >>> spread({7: 4.0})
        Spread(mean=4.0, sd=None, n=1)
    """
    numbers = list(values.values() if isinstance(values, Mapping) else values)
    if len(numbers) < 2:
        return Spread(numbers[0] if numbers else math.nan, None, len(numbers))
    return Spread(statistics.fmean(numbers), statistics.stdev(numbers), len(numbers))


def mean(values: Sequence[float]) -> Estimate:
    """Return a mean with Student's interval.

    Args:
        values: One per seed.

    Returns:
        The estimate; without an interval for a single value.

    Example:
        >>> found = mean([1.0, 2.0, 3.0])  # sd 1, standard error 1/√3, t quantile 4.3027
        >>> found.value, round(found.low, 3), round(found.high, 3)
        (2.0, -0.484, 4.484)
    """
    from scipy.special import stdtrit  # takes a while to import

    found = spread(values)
    if found.sd is None:
        return Estimate(found.mean, n=found.n)
    half = float(stdtrit(found.n - 1, 0.975)) * found.sd / math.sqrt(found.n)
    return Estimate(found.mean, found.mean - half, found.mean + half, found.n)


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    """Return the mean of ``first − second`` over the seeds they share, with Student's interval.

    Args:
        first: Values by seed.
        second: Likewise.

    Returns:
        The estimate.

    Example:
        >>> gap = difference({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0, 9: 0.0})
        >>> gap.value, round(gap.low, 3), gap.n
        (2.0, -0.484, 3)
    """
    return mean([first[seed] - second[seed] for seed in first if seed in second])


def ratio(first: Mapping[int, float], second: Mapping[int, float]) -> Estimate:
    r"""Return :math:`\sum_s a_s / \sum_s b_s` over the seeds they share, with a bootstrap interval over seeds.

    Args:
        first: Values by seed.
        second: Likewise, above 0.

    Returns:
        The ratio of means and the 2.5 % and 97.5 % quantiles of it over resampled seeds.

    Example:
        >>> ratio({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0})  # the same in every seed
        Estimate(value=2.0, low=2.0, high=2.0, n=3)
    """
    seeds = [seed for seed in first if seed in second]
    a, b = (np.array([values[seed] for seed in seeds]) for values in (first, second))
    if not seeds or b.sum() <= 0:
        return NOTHING
    value = float(a.sum() / b.sum())
    if len(seeds) < 2:
        return Estimate(value, n=1)
    drawn = np.random.default_rng(0).integers(0, len(seeds), (N_RESAMPLED, len(seeds)))
    below = b[drawn].sum(1)
    low, high = np.quantile((a[drawn].sum(1) / np.where(below > 0, below, np.nan)), [0.025, 0.975])
    return Estimate(value, float(low), float(high), len(seeds))


def u_shape(
    curves: Mapping[int, Sequence[float]], chosen_by: Mapping[int, Sequence[float]]
) -> tuple[Estimate, Estimate]:
    """Contrast both ends of a curve with an inner point: U-shaped where both contrasts are above 0.

    The inner point is the one with the lowest mean over seeds on other examples: were it chosen on those that the
    contrasts are taken on, the contrasts would come out too high. They are ``first − inner`` and ``last − inner``,
    paired by seed.

    Args:
        curves: By seed, the values at increasing settings; at least three. Of the test split.
        chosen_by: Likewise, of the calibration split.

    Returns:
        Left and right contrast.

    Example:
        >>> left, right = u_shape({0: [3.0, 1.0, 0.5, 2.0]}, {0: [3.0, 1.0, 1.5, 2.0]})
        >>> left.value, right.value
        (2.0, 1.0)
    """
    whole = {seed: curve for seed, curve in curves.items() if len(curve) >= 3 and len(chosen_by.get(seed, ())) >= 3}
    if not whole:
        return NOTHING, NOTHING
    table, other = np.array(list(whole.values())), np.array([chosen_by[seed] for seed in whole])
    inner = 1 + int(other[:, 1:-1].mean(0).argmin())
    left, right = table[:, 0] - table[:, inner], table[:, -1] - table[:, inner]
    return mean(left.tolist()), mean(right.tolist())
