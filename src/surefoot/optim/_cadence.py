"""Climb at every k-th step."""

from __future__ import annotations

from surefoot.errors import InputError
from surefoot.optim._rules import Cadence


class Every(Cadence):
    """Climb at steps 0, k, 2k and so on.

    Args:
        k: 1 climbs always.

    Raises:
        InputError: If k < 1.

    Example:
        >>> [Every(3).due(t) for t in range(4)]
        [True, False, False, True]
    """

    def __init__(self, k: int = 1) -> None:
        if k < 1:
            raise InputError(f"Expected to climb at every k-th step with k ≥ 1, but got {k}. Try 1, or 5.")
        super().__init__()
        self.k = k

    def due(self, t: int) -> bool:
        """Return whether step ``t`` climbs."""
        return t % self.k == 0
