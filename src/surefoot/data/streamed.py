"""Pictures of the library ``datasets`` that come one after another and are never on disk as a whole.

A stream cannot be asked for the tenth row. So a split has its labels, which are read once at the start, and its inputs
pass by: in the order of the stream to be predicted; to be trained on, file by file in random order and through a buffer
out of which the next example is drawn. Both draws depend on a seed alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from surefoot.data._divide import Array, Division, divide
from surefoot.data._standardise import Kind, to_inputs
from surefoot.data.stored import MEASURED, load_workers, unread_splits
from surefoot.errors import InputError
from surefoot.scaling import Scaling
from surefoot.schema import SplitName, Splits
from surefoot.seeding import generator

BUFFER = 10_000  # examples among which the next one is drawn


@dataclass(frozen=True)
class Stream:
    """A published part: its files, one after another.

    Attributes:
        files: One iterable data set each.
        starts: Number of the first row of each.
        key: The column of inputs.
    """

    files: Sequence[Any]
    starts: Sequence[int]
    key: str

    def rows(self, order: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Go through files in some order, with the number of each row and its raw input."""
        for file in order:
            yield from enumerate((row[self.key] for row in self.files[file]), self.starts[file])


class Streamed:
    """Inputs that pass by, as a network sees them.

    Args:
        stream: Where they come from.
        rows: Which rows of the part are wanted, ascending.
        scaling: What the training split had; None for what stays as it is.
        kind: What the raw values are.
        shape: Of one input, as a network sees it.
    """

    def __init__(self, stream: Stream, rows: Array, scaling: Scaling | None, kind: Kind, shape: Sequence[int]) -> None:
        self._stream, self._scaling, self._kind = stream, scaling, kind
        self._places = {int(row): place for place, row in enumerate(rows)}
        self.shape = torch.Size((len(rows), *shape))
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._places)

    def __getitem__(self, rows: Any) -> Tensor:
        """Read the first rows; no others can be asked for."""
        if not isinstance(rows, slice) or rows.start not in (None, 0) or rows.step not in (None, 1):
            raise InputError(
                "Expected inputs in the order in which they are streamed, but others were asked for. Leave "
                "streaming=true out, or choose a method and trackers that go by batches."
            )
        n = len(self) if rows.stop is None else min(rows.stop, len(self))
        return torch.stack([one for _, one in itertools.islice(self._in_order(), n)])

    def first(self, n: int) -> Streamed:
        """Return the first rows, unread."""
        kept = np.array(sorted(self._places)[:n])
        return Streamed(self._stream, kept, self._scaling, self._kind, self.shape[1:])

    def to(self, device: torch.device | str) -> Tensor:
        """Read all rows and bring them to a device."""
        return self[:].to(device)

    def in_order(self, batches: Sequence[slice]) -> Iterator[Tensor]:
        """Go through some batches of rows, which ascend."""
        rows = _ahead(self._in_order)
        for batch in batches:
            found = [one for place, one in _until(rows, batch.stop - 1) if place >= batch.start]
            yield torch.stack(found)

    def shuffled(self, seed: int, sizes: Sequence[int], rank: int, n_ranks: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Go through an epoch in random order.

        Args:
            seed: Determines the order.
            sizes: Of this rank's batches.
            rank: Which part of the stream to read.
            n_ranks: Of how many.

        Yields:
            The places of a batch's rows in the split, and their inputs.
        """
        # The parts of two ranks need not be equally long: one that comes to its end early begins again.
        endless = (self._mixed(generator(seed, "stream"), rank, n_ranks) for _ in itertools.repeat(None))
        rows = _ahead(lambda: itertools.chain.from_iterable(endless))
        for size in sizes:
            places, inputs = zip(*itertools.islice(rows, size), strict=True)
            yield torch.tensor(places), torch.stack(inputs)

    def _in_order(self) -> Iterator[tuple[int, Tensor]]:
        for row, raw in self._stream.rows(range(len(self._stream.files))):
            if row in self._places:
                yield self._places[row], self._seen(raw)

    def _mixed(self, draw: torch.Generator, rank: int, n_ranks: int) -> Iterator[tuple[int, Tensor]]:
        """Go through a rank's files in random order, or where they cannot be shared out evenly, its rows of all."""
        order = torch.randperm(len(self._stream.files), generator=draw).tolist()
        by_file = len(order) % n_ranks == 0
        rows = self._stream.rows(order[rank::n_ranks] if by_file else order)
        wanted: Iterator[tuple[int, Any]] = ((row, raw) for row, raw in rows if row in self._places)
        if not by_file:
            wanted = itertools.islice(wanted, rank, None, n_ranks)
        for row, raw in _drawn(wanted, draw):
            yield self._places[row], self._seen(raw)

    def _seen(self, raw: Any) -> Tensor:
        return to_inputs(np.asarray(raw)[None], self._scaling, self._kind)[0]


def _drawn(rows: Iterator[tuple[int, Any]], draw: torch.Generator) -> Iterator[tuple[int, Any]]:
    """Draw the next row out of those that wait; where one is taken, one comes in."""
    waiting = list(itertools.islice(rows, BUFFER))
    for new in rows:
        place = int(torch.randint(len(waiting), (), generator=draw))
        taken, waiting[place] = waiting[place], new
        yield taken
    for place in torch.randperm(len(waiting), generator=draw).tolist():
        yield waiting[place]


def _until(rows: Iterator[tuple[int, Tensor]], last: int) -> Iterator[tuple[int, Tensor]]:
    """Go on until a place has come, and leave what is behind it."""
    for place, one in rows:
        yield place, one
        if place == last:
            return


class _Rows(IterableDataset[Any]):
    def __init__(self, make: Callable[[], Iterator[tuple[int, Tensor]]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        return self._make()


def _ahead(make: Callable[[], Iterator[tuple[int, Tensor]]]) -> Iterator[tuple[int, Tensor]]:
    """Let another process read ahead: one, since the order of a stream depends on how many read it."""
    if load_workers() == 0:
        return make()
    return iter(DataLoader(_Rows(make), batch_size=None, num_workers=1, generator=torch.Generator()))


def splits_from_streams(
    parts: Mapping[SplitName, Any],
    key: str,
    label: str,
    *,
    origin: str,
    division: Division,
    class_names: Sequence[str],
) -> Splits:
    """Make splits of streams.

    Args:
        parts: Iterable data sets.
        key: The column of inputs.
        label: The column of labels.
        origin: Where they come from, for error messages.
        division: Who gets which rows.
        class_names: One name per class.

    Returns:
        The three splits.
    """
    streams, labels = {}, {}
    for part, table in parts.items():
        files = [table.shard(table.num_shards, number) for number in range(table.num_shards)]
        found = [np.fromiter((row[label] for row in file.select_columns([label])), np.int64) for file in files]
        starts = np.cumsum([0, *map(len, found)])[:-1].tolist()
        streams[part], labels[part] = Stream(files, starts, key), np.concatenate(found)
    rows = divide(labels, division)
    wanted = set(rows["train"].numbers.tolist())
    draw = generator(0, "measured rows")
    order = torch.randperm(len(streams["train"].files), generator=draw).tolist()
    passing = ((row, raw) for row, raw in streams["train"].rows(order) if row in wanted)
    sample = np.stack([np.asarray(raw) for _, raw in itertools.islice(_drawn(passing, draw), MEASURED)])
    return unread_splits(
        sample,
        labels,
        rows,
        class_names,
        origin=origin,
        kind=None,
        hold=lambda part, *seen: Streamed(streams[part], *seen),
        mark=lambda name, part, numbers, own: own.tobytes() + numbers.tobytes(),
        known_by=lambda scaling, kind, shape: f"streamed {origin} {kind} {shape} {scaling}",
    )
