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

POWER = 0.8  # chance with which as many seeds as `takes` says would tell
MOST = 1000  # seeds beyond which nobody goes


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of n values; one value has no deviation, and the mean of none is NaN."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval where there is one, over n seeds or runs; NaN where nothing is known.

    The interval of a ratio is Student's of its logarithm.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    is_ratio: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is a number."""
        return not math.isnan(self.value)

    def p_value(self, limit: float) -> float:
        """Return the two-sided p-value of Student's test that the number is a limit; 1 where there is no interval.

        Args:
            limit: Above 0 for a ratio.

        Returns:
            At most 0.05 if and only if the limit lies outside the interval.

        Example:
            >>> round(mean([1.0, 2.0, 3.0]).p_value(0), 4)  # t = 2√3, two degrees of freedom
            0.0742
        """
        from scipy.special import stdtr  # takes a while to import

        apart, error = self._apart(limit)
        if error is None:
            return 1.0
        return float(2 * stdtr(self.n - 1, -apart / error)) if error else float(apart == 0)

    def seeds_to_tell(self, limit: float, *, level: float = 0.05) -> int | None:
        """Return how many seeds would tell the number from a limit with probability 0.8, were it what it seems.

        Args:
            limit: Above 0 for a ratio.
            level: How often chance may tell as much where there is nothing.

        Returns:
            From 3 on; None for more than 1,000, and where there is no interval.

        Example:
            >>> mean([1.0, 2.0, 3.0]).seeds_to_tell(0), mean([1.0, 2.0, 3.0]).seeds_to_tell(2.001)
            (5, None)
            >>> mean([1.0, 2.0, 3.0]).seeds_to_tell(0, level=0.01)  # (4.0 + 0.9) / √6 > 2 > (3.7 + 0.9) / √7
            7
        """
        from scipy.special import stdtrit

        apart, error = self._apart(limit)
        if error is None or not apart:
            return None
        n = np.arange(3, MOST + 1)
        half = (stdtrit(n - 1, 1 - level / 2) + stdtrit(n - 1, POWER)) * error * np.sqrt(self.n / n)
        enough = np.flatnonzero(half <= apart)
        return int(n[enough[0]]) if len(enough) else None

    def _apart(self, limit: float) -> tuple[float, float | None]:
        """Return the distance to a limit and its standard error, for a ratio both of logarithms."""
        from scipy.special import stdtrit

        if self.low is None or self.high is None or self.n < 2:
            return 0.0, None
        scale = math.log if self.is_ratio else float
        half = (scale(self.high) - scale(self.low)) / 2
        return abs(scale(self.value) - scale(limit)), half / float(stdtrit(self.n - 1, 0.975))

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
    r"""Return :math:`\exp(\frac1n \sum_s \log(a_s / b_s))` over the seeds they share, with Student's interval.

    A bootstrap over seeds covers too little: five of them give intervals of 95 % that hold the truth in 84 %.

    Args:
        first: Values by seed, above 0.
        second: Likewise.

    Returns:
        The geometric mean of the ratios; not known where a value is not above 0.

    Example:
        >>> ratio({0: 2.0, 1: 4.0, 2: 6.0}, {0: 1.0, 1: 2.0, 2: 3.0})  # the same in every seed
        Estimate(value=2.0, low=2.0, high=2.0, n=3, is_ratio=True)
    """
    pairs = [(first[seed], second[seed]) for seed in first if seed in second]
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        return NOTHING
    logs = mean([math.log(a / b) for a, b in pairs])
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    return Estimate(math.exp(logs.value), low, high, logs.n, is_ratio=True)


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
