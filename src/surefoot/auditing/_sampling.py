"""Random samples of rows that are read one after the other: their size does not grow with the number of rows."""

from __future__ import annotations

import numpy as np
import torch

from surefoot.auditing._choices import joined
from surefoot.auditing._labels import Array
from surefoot.seeding import generator

_MOST_PARTS = 64
_GATHERED = 1 << 27  # bytes that may be there twice for a moment


class Folds:
    """Deals rows into two halves at random, the same way in every walk through the same file."""

    def __init__(self) -> None:
        self._source = generator(0, "audit folds")

    def next(self, n: int) -> Array:
        """Return the half, 0 or 1, of each of the next n rows."""
        halves: Array = torch.randint(2, (n,), generator=self._source).numpy()
        return halves


class Sample:
    """Keeps the rows with the smallest random keys, which are drawn in the order of the rows.

    Args:
        purpose: Samples for different purposes are drawn independently.
    """

    def __init__(self, purpose: str) -> None:
        self._source = generator(0, f"audit {purpose}")
        self._parts: list[tuple[Array, ...]] = []
        self._keys: list[Array] = []
        self._limit = np.inf
        self._room = 0

    def add(self, room: int, *arrays: Array) -> None:
        """Offer rows; of all that were offered, ``room`` are kept."""
        self._room = room
        keys = torch.rand(len(arrays[0]), generator=self._source, dtype=torch.float64).numpy()
        small = keys < self._limit
        self._keys.append(keys[small])
        self._parts.append(tuple(array[small] for array in arrays))
        if sum(map(len, self._keys)) > 2 * room:
            self._shrink()
        if len(self._parts) >= _MOST_PARTS and sum(each.nbytes for part in self._parts for each in part) <= _GATHERED:
            # Many small arrays among the large ones of each chunk would keep memory from being given back.
            self._parts = [tuple(joined(column) for column in zip(*self._parts, strict=True))]
            self._keys = [np.concatenate(self._keys)]

    def _shrink(self) -> None:
        keys = np.concatenate(self._keys)
        if len(keys) <= self._room:
            return
        self._limit = float(np.partition(keys, self._room - 1)[self._room - 1])
        for place, own in enumerate(self._keys):  # part by part: together they would be there twice for a moment
            kept = own <= self._limit
            self._keys[place] = own[kept]
            self._parts[place] = tuple(array[kept] for array in self._parts[place])

    def taken(self) -> tuple[Array, ...]:
        """Return the kept rows in random order, so that the first of them are a sample too."""
        self._shrink()
        order = np.argsort(np.concatenate(self._keys))
        return tuple(joined(column)[order] for column in zip(*self._parts, strict=True))
