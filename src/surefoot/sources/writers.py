"""Repaired predictions on disk, in the format that the file's name asks for, other columns as they were."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from surefoot.atomic import replacing
from surefoot.errors import InputError
from surefoot.schema import LABELS_ARE
from surefoot.sources.labels import Array
from surefoot.sources.names import Kind
from surefoot.sources.readers import table_suffix

Columns = dict[str, Sequence[Any]]
_PACKED = (".csv", ".tsv", ".jsonl", ".ndjson")
WRITTEN = (".npz", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


@dataclass(frozen=True)
class Layout:
    """How scores are laid out in a table: a column per class, a column of lists, or one for the second class."""

    names: tuple[str, ...]
    kind: Kind
    lists: bool = False

    def columns(self, log_p: Array) -> Columns:
        """Lay out some rows of log-probabilities."""
        values = log_p if self.kind == "logits" else np.exp(log_p)
        if self.lists:
            return {self.names[0]: values.tolist()}
        if len(self.names) == 1:
            single = log_p[:, 1] - log_p[:, 0] if self.kind == "logits" else values[:, 1]
            return {self.names[0]: single.tolist()}
        return {name: values[:, k].tolist() for k, name in enumerate(self.names)}


class Sink(Protocol):
    """Takes repaired rows, some at a time."""

    def add(
        self, log_p: Array, labels: Array | None, others: Columns, more: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Take some rows: log-probabilities, class numbers if known, what else the file has, and columns to add."""


def check_format(out: Path) -> None:
    """Refuse a name whose format cannot be written, before the long work starts.

    Args:
        out: The file to write.

    Raises:
        InputError: If its ending is none of those written.
    """
    suffix = table_suffix(out)
    if suffix not in WRITTEN or (out.suffix.lower() == ".gz" and suffix not in _PACKED):
        raise InputError(f"Expected --out to end in {', '.join(WRITTEN)}, but got {out.name!r}. Choose one of these.")
    if suffix == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise InputError(
                "Expected pyarrow to write .parquet, but it is not installed. Run pip install 'surefoot[files]'."
            ) from error


@contextmanager
def open_sink(out: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    """Write a file aside and put it in its place when all rows are in it.

    Args:
        out: The file; its ending says the format.
        shape: Rows and classes.
        class_names: For formats that have a place for them.
        layout: How scores are laid out in a table; None where they stay as they are among the other columns.

    Yields:
        What takes the rows.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    ending = "".join(out.suffixes[-2:]) if out.suffix.lower() == ".gz" else out.suffix
    with replacing(out, ending) as aside, _SINKS[table_suffix(out)](aside, shape, class_names, layout) as sink:
        yield sink


class _Npz:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.labels: list[Array] = []
        self.others: dict[str, list[Any]] = {}
        self.more: dict[str, list[Array]] = {}

    def add(
        self, log_p: Array, labels: Array | None, others: Columns, more: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self._file.write(np.ascontiguousarray(log_p, "<f4").tobytes())
        if labels is not None:
            self.labels.append(labels)
        for name, values in others.items():
            self.others.setdefault(name, []).extend(values)
        for name, values in (more or {}).items():
            self.more.setdefault(name, []).append(np.asarray(values))


@contextmanager
def _npz(path: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open("logits.npy", "w", force_zip64=True) as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            sink = _Npz(file)
            yield sink
        arrays: dict[str, Array] = {name: np.array(values) for name, values in sink.others.items()}
        if sink.labels:  # numbers, whatever the classes are called
            arrays |= {"labels": np.concatenate(sink.labels), LABELS_ARE: np.array("from-0")}
        arrays |= {"class_names": np.array(class_names)} if class_names else {}
        arrays |= {name: np.concatenate(parts) for name, parts in sink.more.items()}
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                plain = values.astype(str) if values.dtype.hasobject else values
                np.lib.format.write_array(file, plain, allow_pickle=False)


class _Rows:
    """Hands columns on: what the file had before, then the scores."""

    def __init__(self, layout: Layout | None, class_names: tuple[str, ...], take: Callable[[Columns], None]) -> None:
        self._layout, self._names, self._take = layout, class_names, take

    def add(
        self, log_p: Array, labels: Array | None, others: Columns, more: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        known = labels is not None and "label" not in others
        mine: Columns = {"label": self._called(labels)} if known and labels is not None else {}
        scores = self._layout.columns(log_p) if self._layout is not None else {}
        # A column that was there before stays in its place.
        before = {name: scores.get(name, values) for name, values in others.items()}
        self._take({**mine, **before, **scores, **(more or {})})

    def _called(self, labels: Array) -> list[Any]:
        return [self._names[label] for label in labels] if self._names else labels.tolist()


def _text(path: Path) -> IO[str]:
    binary: Any = _Gzip(path) if path.suffix.lower() == ".gz" else path.open("wb")
    return io.TextIOWrapper(binary, encoding="utf-8", newline="")


class _Gzip(gzip.GzipFile):
    """A packed file that says neither what it was called nor when it was written: the same rows are the same bytes."""

    def __init__(self, path: Path) -> None:
        self._opened = path.open("wb")
        super().__init__("", "wb", fileobj=self._opened, mtime=0)

    def close(self) -> None:
        super().close()
        self._opened.close()


@contextmanager
def _csv(path: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    with _text(path) as file:
        out = csv.writer(file, delimiter="\t" if table_suffix(path) == ".tsv" else ",", lineterminator="\n")
        started = False

        def take(columns: Columns) -> None:
            nonlocal started
            if not started:
                out.writerow(columns)
                started = True
            out.writerows(zip(*(map(_cell, values) for values in columns.values()), strict=True))

        yield _Rows(layout, class_names, take)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.9g}"
    return json.dumps(value, default=str) if isinstance(value, list | dict) else value


@contextmanager
def _jsonl(path: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    with _text(path) as file:

        def take(columns: Columns) -> None:
            for row in zip(*columns.values(), strict=True):
                values = dict(zip(columns, row, strict=True))
                file.write(json.dumps(values, ensure_ascii=False, default=_plain) + "\n")

        yield _Rows(layout, class_names, take)


@contextmanager
def _json(path: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    held: dict[str, list[Any]] = {}

    def take(columns: Columns) -> None:
        for name, values in columns.items():
            held.setdefault(name, []).extend(values)

    yield _Rows(layout, class_names, take)
    named: Mapping[str, Any] = {"class_names": class_names} if class_names and (layout is None or layout.lists) else {}
    path.write_text(json.dumps({**held, **named}, ensure_ascii=False, default=_plain) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Write numbers and lists of NumPy as such, dates and the like as text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


@contextmanager
def _parquet(path: Path, shape: tuple[int, int], class_names: tuple[str, ...], layout: Layout | None) -> Iterator[Sink]:
    import pyarrow
    from pyarrow import parquet

    writer: Any = None

    def take(columns: Columns) -> None:
        nonlocal writer
        table = pyarrow.table({name: _arrow(values) for name, values in columns.items()})
        if writer is None:
            writer = parquet.ParquetWriter(path, table.schema)
        writer.write_table(table.cast(writer.schema))

    try:
        yield _Rows(layout, class_names, take)
    finally:
        if writer is not None:
            writer.close()


def _arrow(values: Sequence[Any]) -> Any:
    """Make a column; lists that are all empty could be of anything, and are of texts."""
    import pyarrow

    found = pyarrow.array(values)
    is_empty = pyarrow.types.is_list(found.type) and pyarrow.types.is_null(found.type.value_type)
    return found.cast(pyarrow.list_(pyarrow.string())) if is_empty else found


_SINKS: dict[str, Callable[..., Any]] = {
    ".npz": _npz,
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".parquet": _parquet,
}
