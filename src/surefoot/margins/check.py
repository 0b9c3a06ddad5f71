"""One side of a theorem against the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ROUNDING = 1e-9  # relative to each side: float64 has 2e-16, sums over examples and exponents of 1e4 cost the rest


@dataclass(frozen=True)
class Check:
    """``left ≤ right``, evaluated.

    Attributes:
        name: Where it comes from, such as ``theorem 4.1 (i)``.
        statement: The inequality in words of the paper.
        left: Left side.
        right: Right side.
        scale: ``log`` where both sides are natural logarithms (moments like e^{10000} have no other form).
        applies: Whether its assumptions are met here.
        why: Why it does not apply, or under which condition it does.
        proven: True for theorems. False for an assumption that may well fail; then failing is a finding, not a bug.
    """

    name: str
    statement: str
    left: float
    right: float
    scale: Literal["log", "linear"] = "log"
    applies: bool = True
    why: str = ""
    proven: bool = True

    @property
    def slack(self) -> float:
        """Right minus left (a log-ratio on the log scale); 0 where both are the same infinity."""
        return 0.0 if self.left == self.right else self.right - self.left

    @property
    def tolerance(self) -> float:
        """What rounding may cost: 1e-9, on the linear scale times the size of the sides."""
        sides = [abs(side) for side in (self.left, self.right) if math.isfinite(side)]
        return ROUNDING * (1 + max(sides, default=0.0)) if self.scale == "linear" else ROUNDING

    @property
    def holds(self) -> bool:
        """Whether left ≤ right, up to rounding; false for NaN."""
        return self.slack >= -self.tolerance

    @property
    def violated(self) -> bool:
        """Whether a proven inequality whose assumptions are met does not hold: always a bug."""
        return self.proven and self.applies and not self.holds


def unless(reason: str) -> tuple[bool, str]:
    """Turn a reason why a theorem does not apply, empty if it does, into ``applies, why``."""
    return not reason, reason
