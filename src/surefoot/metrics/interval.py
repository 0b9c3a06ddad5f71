"""An estimate with its interval, or with the reason why it has none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from surefoot.errors import OptionError


@dataclass(frozen=True)
class Interval:
    """An estimate and where the truth is with probability ``level``. All in the metric's unit.

    Where nothing can be said, the ends are −∞ and ∞, which is true and excludes no value, ``kind`` is ``none`` and
    ``note`` says why.
    """

    metric: str
    estimate: float
    low: float
    high: float
    level: float
    kind: str
    n_resamples: int = 0
    note: str = ""

    def __contains__(self, value: float) -> bool:
        """Return whether a value is within the interval."""
        return self.low <= value <= self.high

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.kind != "none"


def no_interval(metric: str, estimate: float, level: float, note: str) -> Interval:
    """Return an estimate alone.

    Args:
        metric: Its name.
        estimate: Its value.
        level: That an interval would have had.
        note: Why there is none.

    Returns:
        An interval that excludes nothing.

    Example:
        >>> 0.3 in no_interval("nll", 0.1, 0.95, "too few errors (0 of 20) for an interval")
        True
    """
    return Interval(metric, estimate, -math.inf, math.inf, level, "none", note=note)


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < 1:
        raise OptionError(f"Expected a level between 0 and 1, but got {level}. 0.95 is usual.")


def around(estimate: float, down: float, up: float, limits: tuple[float, float]) -> tuple[float, float]:
    """Go down and up from an estimate, never past it and never past the metric's limits.

    Args:
        estimate: The value.
        down: How far down.
        up: How far up.
        limits: Of the metric.

    Returns:
        Both ends.

    Example:
        >>> around(0.25, 0.5, 0.25, (0.0, 1.0))
        (0.0, 0.5)
    """
    low, high = estimate - max(0.0, down), estimate + max(0.0, up)
    return min(estimate, max(low, limits[0])), max(estimate, min(high, limits[1]))
