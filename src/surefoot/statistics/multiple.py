"""Many comparisons at once: the more are looked at, the more of them chance alone makes look large."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

from surefoot.errors import OptionError

SMALLEST = 1e-12  # below this, a level would round to 1
HALVINGS = 24


def bonferroni(level: float, m: int) -> float:
    """Return the level that each of m intervals needs for all of them to hold at once with probability ``level``.

    Holm's decisions need less: where it tells two apart, such an interval may still hold 0.

    Args:
        level: Of all intervals together.
        m: How many there are; none is like one.

    Returns:
        Of each one.

    Raises:
        OptionError: If the level is no probability.

    Example:
        >>> round(bonferroni(0.95, 10), 6)
        0.995
    """
    if not 0 < level < 1:
        raise OptionError(f"Expected a level between 0 and 1, but got {level}. 0.95 is usual.")
    return 1 - (1 - level) / max(1, m)


def step_down(m: int, decides: Callable[[int, float], bool], level: float) -> frozenset[int]:
    """Decide m comparisons by Holm's rule where there are intervals and no p-values.

    All are looked at with Bonferroni's level; where some are decided, the others with that of as many as are left,
    until nothing more is decided.

    Args:
        m: How many comparisons there are.
        decides: Returns whether a comparison, by its number, is decided at a level; what is decided at one level is so
            at every lower one.
        level: Of all together.

    Returns:
        The numbers of those that are decided.

    Example:
        >>> p_values = [0.01, 0.04, 0.03, 0.001]  # 0.001 ≤ 0.05 / 4, then 0.01 ≤ 0.05 / 3, but 0.03 > 0.05 / 2
        >>> sorted(step_down(4, lambda number, level: p_values[number] <= 1 - level, 0.95))
        [0, 3]
    """
    decided: set[int] = set()
    while left := [number for number in range(m) if number not in decided]:
        each = bonferroni(level, len(left))
        if not (more := {number for number in left if decides(number, each)}):
            break
        decided |= more
    return frozenset(decided)


def p_value(excludes: Callable[[float], bool]) -> float:
    """Return the p-value that intervals of every level imply: 1 − the largest level at which one excludes 0.

    Args:
        excludes: Returns whether the interval of a level excludes 0, or whatever it is asked about. Intervals of
            higher levels are wider.

    Returns:
        In [1e-12, 1], by halving; 1 where no interval excludes it.

    Example:
        >>> from statistics import NormalDist
        >>> z = lambda level: NormalDist().inv_cdf((1 + level) / 2)
        >>> round(p_value(lambda level: 0 < 1.96 - z(level)), 4)  # an estimate of 1.96 standard errors
        0.05
    """
    if not excludes(SMALLEST):
        return 1.0
    if excludes(1 - SMALLEST):
        return SMALLEST
    low, high = log(SMALLEST), 0.0  # log p: excluded from p = high on
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if excludes(1 - exp(middle)) else (middle, high)
    return exp(high)
