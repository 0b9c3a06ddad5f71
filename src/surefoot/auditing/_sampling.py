"""Random samples of rows that are read one after the other: their size does not grow with the number of rows.

What is drawn for a row is a function of its number among all rows, and of nothing else. So every walk draws the same,
whoever reads which part of the rows, and the same rows of equally long sources are drawn.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from surefoot.seeding import derive
from surefoot.sources.choices import joined
from surefoot.sources.labels import Array

_MOST_PARTS = 64
_GATHERED = 1 << 27  # bytes that may be there twice for a moment
_HIGHEST = np.uint64(2**64 - 1)


def numbers(purpose: str, rows: Array) -> Array:
    """Return a random number per row, by its own number alone (SplitMix64 of Steele, Lea and Flood 2014).

    Args:
        purpose: Numbers for different purposes are independent of each other.
        rows: Whole numbers.

    Returns:
        Whole numbers in [0, 2⁶⁴).

    Example:
        >>> every = numbers("rows", np.arange(6))
        >>> bool((every[4:] == numbers("rows", np.arange(4, 6))).all())
        True
    """
    found: Array = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    found += _salt(purpose)
    found ^= found >> np.uint64(30)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(27)
    found *= np.uint64(0x94D049BB133111EB)
    found ^= found >> np.uint64(31)
    return found


@cache
def _salt(purpose: str) -> np.uint64:
    return np.uint64(derive(0, f"audit {purpose}"))


def halves(rows: Array) -> Array:
    """Deal rows into two halves at random: 0 or 1 by the number of the row."""
    found: Array = (numbers("folds", rows) >> np.uint64(63)).astype(np.int64)
    return found


def digest(rows: Array, values: Array) -> int:
    """Sum up what stands where: the same of the same values in the same rows, in whatever parts they are added.

    Args:
        rows: Numbers of the rows.
        values: One of 64 bits per row.

    Returns:
        A number in [0, 2⁶⁴); of two parts, the sum of both modulo 2⁶⁴.
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    return int(numbers("digest", numbers("place", rows) ^ bits).sum(dtype=np.uint64))


class Sample:
    """Keeps the rows with the smallest random numbers; samples of parts join to that of the whole.

    Args:
        purpose: Samples for different purposes are drawn independently.
    """

    def __init__(self, purpose: str) -> None:
        self._purpose = purpose
        self._parts: list[tuple[Array, ...]] = []
        self._keys: list[Array] = []
        self._limit = _HIGHEST
        self._room = 0

    def add(self, room: int, rows: Array, *arrays: Array) -> None:
        """Offer rows by their numbers; of all that were offered, ``room`` are kept."""
        self._room = min(self._room or room, room)  # of choices, those with the most have room for the fewest rows
        keys = numbers(self._purpose, rows)
        small = keys <= self._limit
        self._put(keys[small], tuple(array[small] for array in arrays))

    def _put(self, keys: Array, arrays: tuple[Array, ...]) -> None:
        self._keys.append(keys)
        self._parts.append(arrays)
        if sum(map(len, self._keys)) > 2 * self._room:
            self._shrink()
        if len(self._parts) >= _MOST_PARTS and sum(each.nbytes for part in self._parts for each in part) <= _GATHERED:
            # Many small arrays among the large ones of each chunk would keep memory from being given back.
            self._parts = [tuple(joined(column) for column in zip(*self._parts, strict=True))]
            self._keys = [np.concatenate(self._keys)]

    def merge(self, other: Sample) -> None:
        """Add what was kept of other rows, for the same purpose."""
        self._room = min(filter(None, (self._room, other._room)), default=0)
        self._limit = min(self._limit, other._limit)
        for keys, arrays in zip(other._keys, other._parts, strict=True):
            self._put(keys, arrays)

    def shrink(self) -> None:
        """Let go of what will not be taken."""
        self._shrink()

    def _shrink(self) -> None:
        keys = np.concatenate(self._keys) if self._keys else np.empty(0, np.uint64)
        if len(keys) <= self._room:
            return
        self._limit = np.partition(keys, self._room - 1)[self._room - 1]
        for place, own in enumerate(self._keys):  # part by part: together they would be there twice for a moment
            kept = own <= self._limit
            self._keys[place] = own[kept]
            self._parts[place] = tuple(array[kept] for array in self._parts[place])

    def __len__(self) -> int:
        """Return how many rows are kept."""
        return sum(map(len, self._keys))

    def taken(self) -> tuple[Array, ...]:
        """Return the kept rows in random order, so that the first of them are a sample too."""
        self._shrink()
        order = np.argsort(np.concatenate(self._keys), kind="stable")
        return tuple(joined(column)[order] for column in zip(*self._parts, strict=True))
