"""Pairs of scores and labels, batch after batch: what a loop over a model yields, never held as a whole."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._tokens import HeldRows, flat_rows
from surefoot.sources.labels import Array
from surefoot.sources.memory import as_column
from surefoot.sources.source import Raw, Source, rows_per_chunk


class PairStream:
    """Batches that may be walked through once, or as often as they can be started anew.

    Args:
        batches: Pairs of scores and labels: a list, a data loader, a generator.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        self._batches = batches
        rest: Iterator[Any] = iter(batches)
        self.once = rest is batches
        self._head = [_pair(each) for _, each in zip(range(1), rest, strict=False)] if self.once else []
        self._walked = False

    def first(self) -> tuple[Array, Array] | None:
        """Look at the first pair; it comes again."""
        if self.once:
            return self._head[0] if self._head else None
        return next(map(_pair, self._batches), None)

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        """Walk through all pairs; a second time only where they can be started anew."""
        if not self.once:
            yield from map(_pair, self._batches)
            return
        yield from self._head
        if self._walked:
            raise InputError(
                "Expected batches that can be read again, but a generator is used up. Pass a list or loader."
            )
        self._walked = True
        self._head = []
        yield from map(_pair, self._batches)


def is_batches(source: Any) -> bool:
    """Return whether something yields pairs of scores and labels.

    Example:
        >>> is_batches([([[0.0, 1.0]], [1])]), is_batches({"probs": []}), is_batches(iter([]))
        (True, False, True)
    """
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(each, list | tuple) and len(each) == 2 for each in source)
    named = any(hasattr(type(source), name) for name in ("keys", "columns", "to_pydict"))  # a lazy frame is not asked
    plain = isinstance(source, str | bytes | np.ndarray) or hasattr(source, "detach")
    return hasattr(source, "__iter__") and not named and not plain


def _pair(batch: Any) -> tuple[Array, Array]:
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        raise InputError(
            f"Expected batches that are pairs of logits and labels, but got a {type(batch).__name__}. Yield "
            "(logits, labels)."
        )
    scores, labels = (np.asarray(as_column(each)) for each in batch)
    return scores, labels


def open_batches(source: Any, class_axis: int | None) -> Source:
    """Make a source of batches; those with more than two axes are read as tokens or pixels.

    Args:
        source: Pairs of scores and labels.
        class_axis: The axis of the classes, where shapes do not tell.

    Returns:
        The source.

    Raises:
        InputError: If there are none.
    """
    stream, where = PairStream(source), "batches"
    first = stream.first()
    if first is None:
        raise InputError("Expected at least one batch, but got none. Check the loader.")
    tokens = first[0].ndim > 2

    def start() -> Generator[Raw]:
        for scores, labels in stream.pairs():
            if scores.ndim > 2:
                for raw in flat_rows(HeldRows(scores), HeldRows(labels), {}, class_axis, where):
                    yield Raw(raw.scores, raw.labels)
            elif len(scores) != len(labels):
                raise InputError(
                    f"Expected one label per row in every batch, but got {scores.shape} and {labels.shape}. Yield "
                    "pairs that belong together."
                )
            else:
                step = rows_per_chunk(scores.shape[1] if scores.ndim == 2 else 2)
                for row in range(0, len(scores), step):
                    yield Raw(scores[row : row + step], labels[row : row + step])

    def start_labels() -> Generator[Array]:
        return (raw.labels for raw in start())

    took = f"batches of {first[0].shape} as scores, the second of each pair as labels"
    columns = (("scores",), "labels")
    return Source("", "", took, None, (), where, columns, start, start_labels, once=stream.once, tokens=tokens)
