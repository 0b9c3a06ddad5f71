"""What a file holds beside scores and labels, such as ids, in step with its rows."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from surefoot.places import unzipped
from surefoot.sources._stored import StoredArray
from surefoot.sources.labels import Array
from surefoot.sources.names import take_apart
from surefoot.sources.readers import TABLES, read_table, table_suffix

_ROWS = 4096
Columns = dict[str, Sequence[Any]]


class Others:
    """Columns that go along with rows which are read elsewhere, in other portions.

    Args:
        batches: All columns, some rows at a time.
    """

    def __init__(self, batches: Iterator[Columns]) -> None:
        self._batches = batches
        self._held: dict[str, list[Any]] = {}

    def take(self, n: int) -> Columns:
        """Return the next n rows."""
        while self._held_rows() < n and (more := next(self._batches, None)) is not None:
            for name, values in more.items():
                self._held.setdefault(name, []).extend(values)
        taken: Columns = {name: values[:n] for name, values in self._held.items()}
        self._held = {name: values[n:] for name, values in self._held.items()}
        return taken

    def _held_rows(self) -> int:
        return min(map(len, self._held.values()), default=0)


def others_of(path: Path, rows: int, leave: Collection[str]) -> Generator[Columns]:
    """Read what else a file holds.

    Args:
        path: The file.
        rows: How many there are: arrays of another length are no columns.
        leave: Names to leave out.

    Yields:
        Columns by name; nothing for ``.npy``.
    """
    if table_suffix(path) in TABLES:
        with closing(read_table(path)(_ROWS, None, ())) as reading:
            for columns, _ in reading:
                length = max(map(len, columns.values()), default=0)
                yield {
                    name: _plain(values)
                    for name, values in columns.items()
                    if len(values) == length and name not in leave and not _is_for_all(name)
                }
    elif path.suffix == ".npz":
        yield {name: values for name, values in _arrays(path, rows) if name not in leave}


def _is_for_all(name: str) -> bool:
    """Class names are no column, though they may be as many as there are rows."""
    found = take_apart(name)
    return found is not None and found.role == "classes"


def _plain(values: Sequence[Any] | Array) -> Sequence[Any]:
    found: Sequence[Any] = values.tolist() if hasattr(values, "tolist") else values
    return found


def _arrays(path: Path, rows: int) -> Iterator[tuple[str, Sequence[Any]]]:
    with unzipped(path) as archive:
        for entry in archive.namelist():
            name = entry.removesuffix(".npy")
            if entry.endswith(".npy") and take_apart(name) is None:
                with archive.open(entry) as file:
                    array = StoredArray(file, f"{path.name}:{name}")
                    if array.shape == (rows,) and not array.dtype.hasobject:
                        yield name, array.take(rows).tolist()
