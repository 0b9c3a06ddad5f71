"""Which parts of the rows others can read on their own: files, row groups of parquet, rows of stored arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np

from surefoot.places import is_address
from surefoot.sources._stored import StoredArray, arrays_in
from surefoot.sources.source import Source
from surefoot.sources.window import Window

LEAST_VALUES = 1 << 22  # rows × classes of a part: below, starting a task takes longer than reading
PER_WORKER = 4  # parts, so that a slow one does not hold all up


@dataclass(frozen=True)
class Part:
    """Rows that one worker reads.

    Attributes:
        window: Which of them.
        rows: How many there are; None until they are counted.
        where: What they are called in messages.
    """

    window: Window
    rows: int | None
    where: str


def plan(source: Source, workers: int) -> list[Part]:
    """Divide the rows of a source.

    Args:
        source: All rows.
        workers: How many can read at once.

    Returns:
        Parts in the order of the rows; a single one where they can only be read all at once.
    """
    if not source.files:
        return [Part(Window(), None, source.where)]
    known = [_rows_in(source, path) for path in source.files]
    total = sum(sum(stops) for stops in known if stops is not None)
    target = max(-(-total // (PER_WORKER * workers)), LEAST_VALUES // max(1, source.n_classes), 1)
    return [
        part
        for number, (path, sizes) in enumerate(zip(source.files, known, strict=True))
        for part in _parts(number, path, sizes, target)
    ]


def placed(parts: Sequence[Part], rows: Sequence[int]) -> list[Part]:
    """Tell each part how many rows come before it.

    Args:
        parts: In the order of the rows.
        rows: How many rows each has.

    Returns:
        The parts.
    """
    before = [0, *accumulate(rows)]
    return [
        replace(part, rows=n, window=replace(part.window, before=start))
        for part, n, start in zip(parts, rows, before[:-1], strict=True)
    ]


def _parts(number: int, path: Path, sizes: Sequence[int] | None, target: int) -> list[Part]:
    if sizes is None:
        return [Part(Window(number), None, path.name)]
    ends, found, first = list(accumulate(sizes)), [], 0
    for end in ends:
        while len(sizes) == 1 and end - first > target:  # rows that need not stay together
            found.append((first, first + target))
            first += target
        if end - first >= target or end == ends[-1]:
            found.append((first, end))
            first = end
    found = [(a, b) for a, b in found if b > a] or [(0, 0)]
    if len(found) == 1:
        return [Part(Window(number), ends[-1] if ends else 0, path.name)]
    return [Part(Window(number, a, b), b - a, f"rows {a:,} to {b - 1:,} of {path.name}") for a, b in found]


def _rows_in(source: Source, path: Path) -> list[int] | None:
    """Return the rows that lie together: of a single number all can be told apart; None where only reading tells."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        from pyarrow import parquet

        with path.open("rb") as file:
            metadata = parquet.ParquetFile(file if is_address(path) else path).metadata
            sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        return sizes if len(sizes) != 1 else [sizes[0], 0]  # one group is read as a whole
    if source.tokens or suffix not in (".npz", ".npy"):
        return None
    if suffix == ".npz":
        shape = arrays_in(path)[source.columns[0][0]][0]
    else:
        with path.open("rb") as file:
            shape = StoredArray(file, path.name).shape
    return [int(shape[0])] if shape else None


def count_rows(source: Source) -> int:
    """Count rows as they are numbered: with weights that are counts, those that they stand for."""
    if source.weights is not None and source.weights_are == "counts":
        found = (raw.weights for raw in source.start() if raw.weights is not None)
        return sum(int(np.where(each > 0, each, 0).astype(np.int64).sum()) for each in found)
    return sum(map(len, source.start_labels()))
