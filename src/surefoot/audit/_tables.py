"""``.csv``, ``.tsv``, ``.json``, ``.jsonl`` and ``.parquet``: tables with a column per class, or a list of scores per row."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from surefoot.audit._names import Pick, pick_arrays, pick_columns, take_apart
from surefoot.audit._source import Array, Chunk, Source, clean, rows_per_chunk
from surefoot.errors import InputError

Columns = dict[str, Sequence[Any]]
Batches = Callable[[int], Iterator[Columns]]  # starts anew, some rows at a time


def open_table(path: Path, group_names: tuple[str, ...], label: str | None) -> list[Source]:
    """List the predictions in a table.

    Args:
        path: The file.
        group_names: Columns that divide the rows into slices.
        label: The label column, where its name does not tell.

    Returns:
        One source per model.

    Raises:
        InputError: If the file cannot be read or its columns do not tell what they are.
    """
    batches = _READERS[_suffix(path)](path)
    first = next(batches(64), None)
    if not first or not next(iter(first.values()), ()):
        raise InputError(f"Expected at least one row, but {path.name} has none. Check the file.")
    if missing := [name for name in (*group_names, *([label] if label else [])) if name not in first]:
        raise InputError(f"Expected a column {missing[0]!r}, but {path.name} has {_shown(first)}. Check its name.")
    lists = [name for name, values in first.items() if isinstance(values[0], list | np.ndarray)]
    if lists:
        picks = [pick for pick in pick_arrays([label or "", *first])[0] if set(pick.scores) <= set(lists)]
        names: dict[str, tuple[str, ...]] = {}
    else:
        picks, names = pick_columns(first)
        if not picks:
            picks, names = _by_elimination(first, group_names, label)
    if not picks:
        raise InputError(
            f"Expected a label column and scores such as logit_0, logit_1 or prob_cat, prob_dog, but {path.name} has "
            f"{_shown(first)}. Rename them, or say which with --labels."
        )
    picks = [Pick(pick.of, pick.scores, pick.kind, label or pick.labels) for pick in picks]
    return [_source(path, batches, pick, names.get(pick.of, ()), group_names) for pick in picks]


def _by_elimination(
    first: Columns, group_names: tuple[str, ...], label: str | None
) -> tuple[list[Pick], dict[str, tuple[str, ...]]]:
    """Take every other numeric column for a class's score; their names are the classes'."""
    found = (name for name in first if (part := take_apart(name)) and part.role == "labels")
    label = label or next(found, None)
    rest = [name for name in first if name != label and name not in group_names and _is_number(first[name][0])]
    if label is None or len(rest) < 2:
        return [], {}
    return [Pick("", tuple(rest), None, label)], {"": tuple(rest)}


def _source(path: Path, batches: Batches, pick: Pick, names: tuple[str, ...], group_names: tuple[str, ...]) -> Source:
    def chunks() -> Iterator[Chunk]:
        start = 0
        for columns in batches(rows_per_chunk(max(len(pick.scores), 10))):
            values = [_floats(columns[name], name, start, path.name) for name in pick.scores]
            scores = values[0] if values[0].ndim == 2 else np.stack(values, axis=1)
            numbers = clean(scores, _labels(columns[pick.labels]), start, names, path.name)
            yield Chunk(*numbers, {name: np.array([str(v) for v in columns[name]]) for name in group_names})
            start += len(scores)

    what = pick.scores[0] if len(pick.scores) == 1 else f"{pick.scores[0]}…{pick.scores[-1]}"
    took = f"{what!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels"
    return Source(pick.of, took, pick.kind, names, chunks)


def _floats(values: Sequence[Any], name: str, start: int, where: str) -> Array:
    try:
        return np.array(values, np.float64)
    except (ValueError, TypeError) as error:
        lengths = {len(value) for value in values if isinstance(value, list)}
        if len(lengths) > 1:
            raise InputError(
                f"Expected as many scores in every row, but got {sorted(lengths)[:4]} in {where}."
            ) from error
        row = next((i for i, value in enumerate(values) if not _is_number(value)), 0)
        raise InputError(
            f"Expected numbers in {name!r}, but row {start + row} has {values[row]!r} in {where}."
        ) from error


def _labels(values: Sequence[Any]) -> Array:
    return np.array([str(v) for v in values]) if any(isinstance(v, str) for v in values) else np.asarray(values)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _shown(columns: Iterable[str]) -> str:
    names = list(columns)
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "none"


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _open(path: Path) -> IO[str]:
    return (
        gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8-sig", newline="")
    )


def _csv(path: Path) -> Batches:
    def batches(n: int) -> Iterator[Columns]:
        with _open(path) as file:
            try:
                dialect: Any = csv.Sniffer().sniff(file.readline(), delimiters=",;\t")
            except csv.Error:
                dialect = csv.excel
            file.seek(0)
            reader = csv.reader(file, dialect)
            header = [name.strip() for name in next(reader, [])]
            while rows := list(islice(reader, n)):
                rows = [row for row in rows if row]
                for row in rows:
                    if len(row) != len(header):
                        raise InputError(
                            f"Expected {len(header)} values per row, but line {reader.line_num} or one before it has "
                            f"{len(row)} in {path.name}. Check its separators."
                        )
                yield dict(zip(header, zip(*rows, strict=True), strict=True))

    return batches


def _jsonl(path: Path) -> Batches:
    def records() -> Iterator[dict[str, Any]]:
        with _open(path) as file:
            for number, line in enumerate(file):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except json.JSONDecodeError as error:
                        raise InputError(f"Expected JSON in line {number + 1} of {path.name}, but {error}.") from error

    return lambda n: _transposed(records(), n, path)


def _json(path: Path) -> Batches:
    def batches(n: int) -> Iterator[Columns]:
        with _open(path) as file:
            try:
                content = json.load(file)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"Expected {path.name} to be JSON, but {error}. Use .jsonl for one row per line."
                ) from error
        if isinstance(content, dict):
            columns = {key: value for key, value in content.items() if isinstance(value, list)}
            if len({len(value) for value in columns.values()}) > 1:
                sizes = ", ".join(f"{key} {len(value)}" for key, value in columns.items())
                raise InputError(f"Expected lists of one length, but got {sizes} in {path.name}.")
            length = len(next(iter(columns.values()), ()))
            yield from ({k: v[i : i + n] for k, v in columns.items()} for i in range(0, length, n))
        elif isinstance(content, list):
            yield from _transposed(iter(content), n, path)
        else:
            raise InputError(f"Expected an object or a list in {path.name}, but got {type(content).__name__}.")

    return batches


def _transposed(records: Iterator[Any], n: int, path: Path) -> Iterator[Columns]:
    first = next(records, None)
    if first is None:
        return
    if not isinstance(first, dict):
        raise InputError(f"Expected an object per row, but got {type(first).__name__} in {path.name}.")
    rows = chain([first], records)
    while some := list(islice(rows, n)):
        try:
            yield {key: [row[key] for row in some] for key in first}
        except (KeyError, TypeError) as error:
            raise InputError(f"Expected the same keys in every row, but {error} is missing in {path.name}.") from error


def _parquet(path: Path) -> Batches:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError(
            "Expected pyarrow to read .parquet, but it is not installed. pip install 'surefoot[files]'."
        ) from error

    def batches(n: int) -> Iterator[Columns]:
        try:
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=n):
                    yield {
                        name: column.to_pylist()
                        if str(column.type).startswith(("list", "large_list", "string", "dict"))
                        else column.to_numpy(zero_copy_only=False)
                        for name, column in zip(batch.schema.names, batch.columns, strict=True)
                    }
        except (OSError, ValueError) as error:
            raise InputError(
                f"Expected a parquet file, but {path.name} cannot be read ({error}). Copy it again."
            ) from error

    return batches


_READERS: dict[str, Callable[[Path], Batches]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".txt": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}
SUFFIXES = (".npz", ".npy", *_READERS)
