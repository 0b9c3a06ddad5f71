"""Logarithms of probabilities that may be 0. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = float(np.log(np.finfo(np.float32).tiny))  # stands in for the logarithm of 0


def finite_logs(logs: NDArray[Any], *, single: bool = False) -> NDArray[Any]:
    """Make logarithms of probabilities finite.

    What is stored as 0 becomes the smallest normal number of single precision, or the smallest other probability of
    its row where that is smaller still: so 0 is never above a number that was given.

    Args:
        logs: Shape ``(n, classes)``; −∞ where a probability is 0.
        single: Whether they were stored in single precision, where whatever is smaller counts as 0.

    Returns:
        The same, finite.

    Example:
        >>> finite_logs(np.array([[-0.1, -np.inf], [-260.6, -np.inf]])).round(1).tolist()
        [[-0.1, -87.3], [-260.6, -260.6]]
    """
    if single:
        found: NDArray[Any] = np.maximum(logs, LEAST)
        return found
    least = np.min(logs, axis=1, keepdims=True, initial=LEAST, where=np.isfinite(logs))
    return np.where(np.isneginf(logs), least, logs)
