"""One random number per row that belongs to the row: the same set for the same row, whatever comes with it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_GOLDEN = 0x9E3779B97F4A7C15
_MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of SplitMix64 (Steele, Lea and Flood 2014)


def draws_of(probs: Array, seed: int) -> Array:
    """Draw a number in [0, 1) for every row from the row's own probabilities.

    A function of the row keeps rows exchangeable, as numbers drawn one after another would. But it does not depend on
    the order of the rows, on how many are read at once, or on whether rows come one by one, where a generator that
    starts anew would draw the same number for all of them.

    Args:
        probs: Shape ``(n, classes)``.
        seed: Other numbers for another seed.

    Returns:
        Shape ``(n,)``.

    Example:
        >>> rows = np.array([[0.9, 0.1], [0.8, 0.2]])
        >>> draws = draws_of(rows, 0)
        >>> bool(draws[1] == draws_of(rows[1:], 0)[0]), bool(draws[0] == draws[1])
        (True, False)
    """
    # In float32, so that rows which were logits before get the same numbers; adding 0 makes −0 a 0.
    bits = np.ascontiguousarray(probs + 0.0, np.float32).view(np.uint32).astype(np.uint64)
    places = np.arange(1, bits.shape[1] + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    with np.errstate(over="ignore"):
        mixed = _mixed(bits ^ places).sum(axis=1, dtype=np.uint64) + np.uint64(seed & (2**64 - 1))
        draws: Array = (_mixed(mixed) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return draws


def _mixed(values: Any) -> Any:
    for shift, factor in _MIXES:
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    return values ^ (values >> np.uint64(31))
