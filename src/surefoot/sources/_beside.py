"""Labels in a file of their own, in step with the rows of another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.places import place, unzipped
from surefoot.sources._cells import labels as read_labels
from surefoot.sources._stored import StoredArray, arrays_in
from surefoot.sources.labels import Array
from surefoot.sources.names import label_column, take_apart
from surefoot.sources.paths import SUFFIXES, find_files, suffix_of
from surefoot.sources.readers import Batch, Batches, read_table
from surefoot.sources.source import rows_per_chunk

Labels = Callable[[], Generator[Array]]


def labels_file(said: str | None, columns: Sequence[str]) -> Path | None:
    """Return the file that somebody named for the labels, where it is no column.

    Args:
        said: The name of a column or array, or a file.
        columns: What columns or arrays there are.

    Returns:
        The file; None where labels stand among the columns, or nobody said where.

    Raises:
        InputError: If it is called as a file, and there is none.
    """
    if said is None or said in columns:
        return None
    path = place(said)
    if path.is_file():
        return find_files(path).paths[0]
    if suffix_of(path) in SUFFIXES:
        raise InputError(f"Expected labels in {path}, but it does not exist. Check the path.")
    return None


def open_labels(path: Path) -> Labels:
    """Make ready to read labels.

    Args:
        path: A table with one column, or one that is called like labels; or an array.

    Returns:
        A function that starts reading them from the first row.

    Raises:
        InputError: If several columns or arrays could be it.
    """
    if suffix_of(path) == ".npy":
        return lambda: _npy(path)
    if suffix_of(path) == ".npz":
        names = list(arrays_in(path))
        named = [name for name in names if (part := take_apart(name)) and part.role == "labels"]
        key = _only(named or names, path)
        return lambda: _npz(path, key)
    batches = read_table(path)
    with closing(batches(1, None, ())) as reading:
        columns, _ = next(reading, ({}, None))
    if not columns:
        raise InputError(f"Expected at least one label, but {path.name} has none. Check the file.")
    column = (
        next(iter(columns)) if len(columns) == 1 else label_column(columns, path.name) or _only(list(columns), path)
    )
    return lambda: _table(batches, column, path)


def _only(names: Sequence[str], path: Path) -> str:
    if len(names) != 1:
        raise InputError(
            f"Expected labels alone, or called so, in {path.name}, but it has {', '.join(names[:6]) or 'nothing'}. "
            "Keep one column, or call it label."
        )
    return names[0]


def _npy(path: Path) -> Generator[Array]:
    with path.open("rb") as file:
        yield from _stored(StoredArray(file, path.name))


def _npz(path: Path, key: str) -> Generator[Array]:
    with unzipped(path) as archive, archive.open(f"{key}.npy") as file:
        yield from _stored(StoredArray(file, f"{path.name}:{key}"))


def _stored(rows: StoredArray) -> Generator[Array]:
    n, step = rows.shape[0] if rows.shape else 0, rows_per_chunk(1)
    for start in range(0, n, step):
        yield rows.take(min(step, n - start))


def _table(batches: Batches, column: str, path: Path) -> Generator[Array]:
    row = 0
    with closing(batches(rows_per_chunk(1), [column], ())) as reading:
        for columns, _ in reading:
            yield read_labels(columns[column], row, path.name)
            row += len(columns[column])


class LabelRows:
    """Labels of a file, taken some at a time as rows of a stored array are.

    Args:
        start: Starts reading them.
        n: How many there are, where somebody asks.
    """

    def __init__(self, start: Labels, n: int = 0) -> None:
        self._parts = start()
        self._held: list[Array] = []
        self.shape = (n,)

    def take(self, n: int) -> Array:
        """Read the next n rows, or as many as there are."""
        while sum(map(len, self._held)) < n and (more := next(self._parts, None)) is not None:
            self._held.append(more)
        if not self._held:
            return np.empty(0)
        every = _joined(self._held)
        self._held = [every[n:]] if len(every) > n else []
        return every[:n]

    def skip(self, n: int) -> None:
        """Leave out the next n rows."""
        while n > 0 and (taken := len(self.take(min(n, rows_per_chunk(1))))):
            n -= taken

    def rest(self) -> int:
        """Count what was not taken, and stop reading."""
        n = sum(map(len, self._held)) + sum(map(len, self._parts))
        self.close()
        return n

    def close(self) -> None:
        """Stop reading."""
        self._parts.close()


def _joined(parts: Sequence[Array]) -> Array:
    """Join numbers with numbers; beside texts, numbers are texts too."""
    if len({part.dtype.kind == "U" for part in parts}) > 1:
        parts = [part if part.dtype.kind == "U" else part.astype(str) for part in parts]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def with_labels(batches: Batches, path: Path, where: str) -> Batches:
    """Put a column of labels from another file beside the columns of a table.

    Args:
        batches: Reads the table.
        path: The file with the labels; the column is called by its name.
        where: The table, for messages.

    Returns:
        A function that reads both in step, and refuses files of different lengths at their end.
    """
    start, name = open_labels(path), path.name

    def joined(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        if names is not None and name not in names:
            yield from batches(n, names, numbers)
            return
        if names is not None and set(names) == {name}:
            for part in start():
                yield {name: part}, None
            return
        others = None if names is None else [each for each in names if each != name]
        rows, held = 0, LabelRows(start)
        with closing(held), closing(batches(n, others, numbers)) as reading:
            for columns, share in reading:
                length = max(map(len, columns.values()), default=0)
                labels = held.take(length)
                rows += length
                if len(labels) < length:
                    n_labels = rows - length + len(labels)
                    rows += sum(max(map(len, more.values()), default=0) for more, _ in reading)
                    raise _differ(where, rows, name, n_labels)
                yield {**columns, name: labels}, share
            if more := held.rest():
                raise _differ(where, rows, name, rows + more)

    return joined


def _differ(where: str, rows: int, name: str, n_labels: int) -> InputError:
    header = " or take its first line away if that is a header" if n_labels == rows + 1 else ""
    return InputError(
        f"Expected a label for every row, but {where} has {rows:,} rows and {name} has {n_labels:,} labels. Give both "
        f"for the same rows, in the same order{',' + header if header else ''}."
    )
