"""One walk through a source: sums over all rows, and a fixed random sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from surefoot.audit._source import Array, Chunk, Source
from surefoot.errors import InputError
from surefoot.metrics import Stream
from surefoot.seeding import generator

SAMPLED_VALUES = 4_000_000  # rows × classes that are kept for what cannot be streamed
MOST_SLICES = 50
STREAMED = ("ece", "classwise_ece", "nll", "brier")


@dataclass
class Reading:
    """What one walk through the rows leaves behind; its size does not depend on their number."""

    streams: dict[str, Stream]
    slices: dict[str, dict[str, Stream]] = field(default_factory=dict)  # by column and value
    logits: Array = field(default_factory=lambda: np.empty((0, 0)))
    labels: Array = field(default_factory=lambda: np.empty(0, np.int64))
    n: int = 0
    n_classes: int = 0

    @property
    def is_sample(self) -> bool:
        """Whether ``logits`` and ``labels`` are only some of the rows."""
        return len(self.labels) < self.n

    def probs(self) -> Tensor:
        """Probabilities of the kept rows."""
        return torch.from_numpy(self.logits).double().softmax(1)


def read(source: Source, *, n_bins: int, where: str, on_rows: Callable[[int], None] | None = None) -> Reading:
    """Walk through all rows once.

    Args:
        source: Its kind is known.
        n_bins: Number of bins.
        where: The file, for messages.
        on_rows: Called with the number of rows read so far.

    Returns:
        Sums, slices and the sample. The same rows of equally long sources are kept, so two can be paired.
    """
    options = {name: {"n_bins": n_bins} if "ece" in name else {} for name in STREAMED}
    reading = Reading({name: Stream(name, **options[name]) for name in STREAMED})
    sample = _Sample()
    for chunk in source.chunks():
        logits, probs = as_logits(chunk, source, reading.n, where)
        labels = torch.from_numpy(chunk.labels)
        for stream in reading.streams.values():
            stream.update(probs, labels)
        _add_slices(reading.slices, chunk, probs, labels, n_bins, where)
        sample.add(logits, chunk.labels)
        reading.n += len(labels)
        reading.n_classes = probs.shape[1]
        if on_rows:
            on_rows(reading.n)
    reading.logits, reading.labels = sample.rows()
    return reading


def as_logits(chunk: Chunk, source: Source, start: int, where: str) -> tuple[Array, Tensor]:
    """Give the rows as logits and as probabilities in float64.

    Args:
        chunk: Some rows.
        source: Says what the scores are.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Logits (the logarithms of probabilities, where these are given) and probabilities.

    Raises:
        InputError: If rows of probabilities do not sum to one.
    """
    if source.kind == "logits":
        return chunk.scores, torch.from_numpy(np.asarray(chunk.scores, np.float64)).softmax(1)
    probs = np.asarray(chunk.scores, np.float64)
    sums = probs.sum(axis=1)
    off = (np.abs(sums - 1) > 1e-3) | (probs.min(axis=1) < 0)
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"Expected probabilities that sum to 1, but row {start + row} sums to {sums[row]:.6g} with minimum "
            f"{probs[row].min():.4g} in {where}. Say --logits if these are logits."
        )
    tiny = np.finfo(chunk.scores.dtype).tiny
    return np.log(np.maximum(probs, tiny)).astype(chunk.scores.dtype), torch.from_numpy(probs)


def _add_slices(
    slices: dict[str, dict[str, Stream]], chunk: Chunk, probs: Tensor, labels: Tensor, n_bins: int, where: str
) -> None:
    for column, values in chunk.groups.items():
        found = slices.setdefault(column, {})
        for value in np.unique(values):
            rows = torch.from_numpy(np.flatnonzero(values == value))
            found.setdefault(str(value), Stream("ece", n_bins=n_bins)).update(probs[rows], labels[rows])
        if len(found) > MOST_SLICES:
            raise InputError(
                f"Expected at most {MOST_SLICES} slices, but column {column!r} has more in {where}. "
                "Group by a column with few values."
            )


class _Sample:
    """Keeps the rows with the smallest random keys, which are drawn in the order of the rows."""

    def __init__(self) -> None:
        self._source = generator(0, "audit sample")
        self._keys = torch.empty(0, dtype=torch.float64)
        self._logits: list[Array] = []
        self._labels: list[Array] = []
        self._room = 0

    def add(self, logits: Array, labels: Array) -> None:
        room = max(1000, SAMPLED_VALUES // logits.shape[1])
        keys = torch.rand(len(labels), generator=self._source, dtype=torch.float64)
        self._keys = torch.cat([self._keys, keys])
        self._logits.append(logits)
        self._labels.append(labels)
        if len(self._keys) > 2 * room:
            self._shrink(room)
        self._room = room

    def _shrink(self, room: int) -> None:
        if len(self._keys) <= room:
            return
        smallest = self._keys.topk(room, largest=False).indices.sort().values  # in the order of the rows
        self._logits = [np.concatenate(self._logits)[smallest.numpy()]]
        self._labels = [np.concatenate(self._labels)[smallest.numpy()]]
        self._keys = self._keys[smallest]

    def rows(self) -> tuple[Array, Array]:
        self._shrink(self._room)
        return np.concatenate(self._logits), np.concatenate(self._labels)


def walk(source: Source, where: str) -> Iterator[tuple[Array, Tensor]]:
    """Go through all rows once more, as logits with labels."""
    start = 0
    for chunk in source.chunks():
        logits, _ = as_logits(chunk, source, start, where)
        start += len(chunk.labels)
        yield logits, torch.from_numpy(chunk.labels)
