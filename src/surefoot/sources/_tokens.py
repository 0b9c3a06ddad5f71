"""Tokens and pixels: arrays with more than two axes become rows, a few at a time, without those that do not count."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._cells import texts
from surefoot.sources.labels import Array
from surefoot.sources.memory import Held
from surefoot.sources.names import pick_arrays, picked_by_hand
from surefoot.sources.source import Raw, Source, rows_per_chunk

IGNORED = -100  # what torch's cross-entropy ignores


class Rows(Protocol):
    """An array that is read one piece after the other."""

    shape: tuple[int, ...]

    def take_flat(self, n: int) -> Array:
        """Read the next n values."""


def class_axis_of(scores: Sequence[int], labels: Sequence[int], said: int | None, where: str) -> int:
    """Find the axis of the classes: the one that labels do not have.

    Args:
        scores: Shape of the scores.
        labels: Shape of the labels.
        said: The axis, where somebody said it.
        where: The file, for messages.

    Returns:
        The axis, counted from 0.

    Raises:
        InputError: If shapes do not fit, or two axes could be it.

    Example:
        >>> class_axis_of((2, 21, 64, 48), (2, 64, 48), None, "a.npz"), class_axis_of((2, 7, 50), (2, 7), None, "a.npz")
        (1, 2)
    """
    found = [k for k in range(1, len(scores)) if tuple(np.delete(scores, k)) == tuple(labels)]
    shapes = f"scores {tuple(scores)} and labels {tuple(labels)}"
    if said is not None:
        axis = said % len(scores) if -len(scores) <= said < len(scores) else -1
        if axis not in found:
            raise InputError(f"Expected --class-axis to fit, but got {said} for {shapes} in {where}. Check both.")
        return axis
    if not found:
        raise InputError(
            f"Expected scores (n, classes) and one label per row, or labels with the axes of the scores but for the "
            f"classes, but got {shapes} in {where}. Save arrays that belong together."
        )
    if len(found) > 1:
        raise InputError(
            f"Expected one axis that could be the classes, but axes {found[0]} and {found[-1]} both could, with "
            f"{shapes} in {where}. Say --class-axis {found[0]} or --class-axis {found[-1]}."
        )
    return found[0]


def flat_rows(scores: Rows, labels: Rows, groups: Mapping[str, Array], said: int | None, where: str) -> Generator[Raw]:
    """Read arrays as rows: pieces of one slab where the classes are the last axis, else slab by slab.

    Args:
        scores: Shape ``(B, …, classes)`` or ``(B, classes, …)``.
        labels: The same without the classes.
        groups: Shape ``(B,)`` each, or as the labels.
        said: The axis of the classes, where somebody said it.
        where: The file, for messages.

    Yields:
        Some rows at a time.
    """
    axis = class_axis_of(scores.shape, labels.shape, said, where)
    n_classes, total = scores.shape[axis], int(np.prod(labels.shape))
    inner = int(np.prod(scores.shape[axis + 1 :]))  # positions that lie within one class
    slabs = total // max(1, inner)
    per = total // max(1, labels.shape[0])
    flat = {name: values.reshape(-1) if values.shape == labels.shape else values for name, values in groups.items()}
    for name, values in flat.items():
        if values.shape not in ((total,), labels.shape[:1]):
            raise InputError(
                f"Expected one value of {name!r} per row of {labels.shape[0]} or per label, but got {values.shape} in "
                f"{where}. Save one of these."
            )
    done, step = 0, rows_per_chunk(n_classes)
    for size, piece in _pieces(scores, slabs, inner, n_classes, step):
        for first in range(0, size, step):
            rows = piece(first, min(step, size - first))
            here = np.arange(done, done + len(rows))
            some = {k: texts(v[here if v.shape == (total,) else here // per]) for k, v in flat.items()}
            done += len(rows)
            yield Raw(rows, labels.take_flat(len(rows)), some, done / total)


def _pieces(
    scores: Rows, slabs: int, inner: int, n_classes: int, step: int
) -> Iterator[tuple[int, Callable[[int, int], Array]]]:
    """Return how many rows come next, and what reads some of them."""
    if inner == 1:  # every row lies in one piece
        for first in range(0, slabs, step):
            size = min(step, slabs - first)
            yield size, lambda start, n: scores.take_flat(n * n_classes).reshape(n, n_classes)
        return
    for _ in range(slabs):
        slab = scores.take_flat(n_classes * inner).reshape(n_classes, inner)
        yield inner, lambda start, n, slab=slab: np.ascontiguousarray(slab[:, start : start + n].T)  # type: ignore[misc]  # a slab of its own


class HeldRows:
    """An array in memory, read like a stored one.

    Args:
        values: The array.
    """

    def __init__(self, values: Array) -> None:
        self.shape, self._values, self._done = values.shape, values.reshape(-1), 0

    def take_flat(self, n: int) -> Array:
        """Read the next n values."""
        start, self._done = self._done, self._done + n
        return self._values[start : start + n]


def open_held_tokens(
    held: Held, groups: Sequence[str], labels: str | None, scores: Sequence[str], class_axis: int | None
) -> list[Source]:
    """Make sources of arrays in memory that have more than two axes.

    Args:
        held: The arrays.
        groups: Arrays that divide the rows into slices.
        labels: The labels, where their name does not tell.
        scores: The scores, where their name does not tell.
        class_axis: The axis of the classes, where shapes do not tell.

    Returns:
        One source per set of scores; none if no array has so many axes.
    """
    arrays = {name: values for name, values in held.columns.items() if isinstance(values, np.ndarray)}
    if not any(values.ndim > 2 for values in arrays.values()):
        return []
    picks = (
        picked_by_hand(scores[0], arrays, labels, held.name) if scores else pick_arrays(arrays, labels, held.name)[0]
    )
    found = []
    for pick in picks:
        (key,) = pick.scores

        def start(key: str = key, own: str = pick.labels) -> Generator[Raw]:
            kept = {name: np.asarray(arrays[name]) for name in groups}
            return flat_rows(HeldRows(arrays[key]), HeldRows(arrays[own]), kept, class_axis, held.name)

        def start_labels(own: str = pick.labels) -> Generator[Array]:
            yield arrays[own].reshape(-1)

        took = f"{key!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels"
        columns = (pick.scores, pick.labels)
        names = held.class_names
        found.append(
            Source(pick.model, pick.split, took, pick.kind, names, held.name, columns, start, start_labels, tokens=True)
        )
    return found


@dataclass
class Ignored:
    """Counts labels that do not count, anew in every walk."""

    index: int
    said: bool
    count: int = 0
    n: int = 0

    def note(self) -> tuple[str, ...]:
        """Say how many were left out; nothing where there were none and nobody asked."""
        if not self.count and not self.said:
            return ()
        what = "were left out, as you said" if self.said else "were left out: such labels do not count"
        return (f"{self.count:,} of {self.n:,} rows with the label {self.index} {what}.",)


def ignoring(source: Source, index: int | None, *, tokens: bool) -> Source:
    """Leave out rows with a label that does not count.

    Args:
        source: Where the rows are from.
        index: The label, where somebody said it.
        tokens: Whether these are tokens or pixels, of which −100 does not count where nothing was said.

    Returns:
        The source without them; the same where nothing is to be left out.
    """
    if index is None and not tokens:
        return source
    ignored = Ignored(IGNORED if index is None else index, index is not None)

    def start() -> Generator[Raw]:
        ignored.count = ignored.n = done = 0
        for raw in source.start():
            rows = raw.numbered(done)
            done = int(rows[-1]) + 1 if len(rows) else done
            if raw.labels.dtype.kind not in "iuf" or raw.labels.ndim != 1:
                yield replace(raw, rows=rows)
                continue
            kept = raw.labels != ignored.index
            ignored.n, ignored.count = ignored.n + len(kept), ignored.count + int((~kept).sum())
            if kept.all():
                yield replace(raw, rows=rows)
            elif kept.any():
                yield raw.chosen(kept, rows)

    return replace(source, start=start, ignored=ignored)
