"""Tables in files: ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` and ``.parquet``, some rows at a time."""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib.util
import io
import json
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from surefoot.errors import InputError
from surefoot.places import is_address, size_of
from surefoot.sources._fast import blocks_of_lines, parse_csv, parse_jsonl
from surefoot.sources._feather import record_batches
from surefoot.sources._header import read_header
from surefoot.sources._json import each_key_once, rows_or_columns
from surefoot.sources._parts import join_tables
from surefoot.sources.labels import Array
from surefoot.sources.paths import Files, find_files, suffix_of
from surefoot.sources.window import rows_in_view

_UNREADABLE = (UnicodeDecodeError, csv.Error, EOFError, OSError, zlib.error, ValueError)
_SMALL = 1 << 24  # bytes of a file whose rows fit into memory, unless it is damaged
Columns = dict[str, Sequence[Any] | Array]
Batch = tuple[Columns, float | None]  # and how much of the file has been read
# Starts anew: rows at once, columns wanted, and which of them must hold numbers, where it is known.
Batches = Callable[[int, Sequence[str] | None, Sequence[str]], Generator[Batch]]


def read_table(path: Path | Files, header: bool | None = None) -> Batches:
    """Make ready to read a table.

    Args:
        path: Its ending says what it is; ``.gz`` may follow. A folder, a pattern or several files are read as one.
        header: Whether the first line of a text holds names; else its cells tell.

    Returns:
        A function that starts reading from the first row. What is wrong with the file comes out as one clear line.
    """
    files = path if isinstance(path, Files) else find_files(path)
    starts = {each: _read_one(each, header) for each in dict.fromkeys(files.paths)}
    return starts[files.paths[0]] if len(files.paths) == 1 else join_tables(files, starts)


def has_header(path: Path, header: bool | None = None) -> bool:
    """Return whether a table names its columns; else they are called by their numbers from 0."""
    if header is not None or table_suffix(path) not in _TEXTS:
        return header is not False
    try:
        file, _ = _open(path)
        with file:
            return read_header(file, None, path.name)[1] is not None
    except _UNREADABLE:  # which reading it says better
        return True


def _read_one(path: Path, header: bool | None) -> Batches:
    start = _csv(path, header) if table_suffix(path) in _TEXTS else _READERS[table_suffix(path)](path)

    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        try:
            yield from start(n, names, numbers)
        except MemoryError as error:
            if size_of(path) > _SMALL or is_address(path):
                raise
            raise InputError(
                f"Expected a whole {table_suffix(path)} file, but {path.name} asks for more memory than there is, "
                "small as it is. Check it."
            ) from error
        except _unreadable() as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InputError(
                f"Expected a whole {table_suffix(path)} file, but {path.name} cannot be read ({reason}). Check it."
            ) from error

    return batches


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what is raised of damaged files; pyarrow, where it is in use, has more for them than invalid values."""
    arrow = sys.modules.get("pyarrow")
    return _UNREADABLE if arrow is None else (*_UNREADABLE, arrow.ArrowException)


def table_suffix(path: Path) -> str:
    """Return the ending that counts; of a folder that of its files."""
    return find_files(path).suffix if path.is_dir() else suffix_of(path)


def _open(path: Path) -> tuple[IO[bytes], Callable[[], float | None]]:
    """Open a text behind its byte order mark, if it has one, and tell how much of it has been read."""
    packed = path.suffix.lower() == ".gz"
    # Whoever asked closes it; a GzipFile reads bytes as any other, but is not declared to be an IO.
    packed_in = path.open("rb") if packed and is_address(path) else path
    file: IO[bytes] = gzip.open(packed_in, "rb") if packed else path.open("rb")  # type: ignore[assignment]  # noqa: SIM115
    try:
        marked = file.read(3) == codecs.BOM_UTF8
        file.seek(3 if marked else 0)
    except (OSError, EOFError, zlib.error):
        file.close()
        raise
    size = max(1, size_of(path))
    return file, lambda: None if packed else min(1.0, file.tell() / size)


def _text(file: IO[bytes]) -> IO[str]:
    return io.TextIOWrapper(file, encoding="utf-8", newline="")


def _has_pyarrow() -> bool:
    return importlib.util.find_spec("pyarrow") is not None


def _csv(path: Path, said: bool | None = None) -> Batches:
    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        file, share = _open(path)
        with file:
            delimiter, named, width = read_header(file, said, path.name)
            header = list(map(str, range(width))) if named is None else named
            _check_once(header, path)
            line = 0 if named is None else 1
            if names is None or not _has_pyarrow():
                wanted = header if names is None else names
                with _text(file) as text:
                    for columns in _csv_rows(text, line, header, delimiter, wanted, n, path):
                        yield columns, share()
                return
            for block in blocks_of_lines(file, quotes=True):
                found = parse_csv(block, header, delimiter, names, numbers)
                plain = _csv_rows(_text(io.BytesIO(block)), line, header, delimiter, names, n, path)
                for columns in plain if found is None else _slices(found, n):
                    yield columns, share()
                line += block.count(b"\n")
            with _text(file) as text:  # what no block could end in, else nothing
                for columns in _csv_rows(text, line, header, delimiter, names, n, path):
                    yield columns, share()

    return batches


def _csv_rows(
    lines: Iterable[str], line: int, header: list[str], delimiter: str, names: Sequence[str], n: int, path: Path
) -> Iterator[Columns]:
    """Parse lines, of which ``line`` came before, as texts."""
    reader = csv.reader(lines, delimiter=delimiter)
    places = {name: header.index(name) for name in names}
    while rows := list(islice(filter(None, reader), n)):
        if any(len(row) != len(header) for row in rows):
            odd = next(len(row) for row in rows if len(row) != len(header))
            raise InputError(
                f"Expected {len(header)} values per row, but one of the {len(rows)} up to line "
                f"{line + reader.line_num} has {odd} in {path.name}. Check its separators."
            )
        columns = list(zip(*rows, strict=True))
        yield {name: columns[place] for name, place in places.items()}


def _check_once(header: Sequence[str], path: Path) -> None:
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"Expected every column once, but {path.name} has {twice!r} twice. Rename one.")


def _slices(columns: Columns, n: int) -> Iterator[Columns]:
    length = max(map(len, columns.values()), default=0)
    for start in range(0, length, n):
        yield {name: values[start : start + n] for name, values in columns.items()}


def _jsonl(path: Path) -> Batches:
    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        file, share = _open(path)
        with file:
            if names is None or not _has_pyarrow():
                with _text(file) as text:
                    for columns in _transposed(_lines(text, 0, path), n, names, path):
                        yield columns, share()
                return
            line = row = 0
            for block in blocks_of_lines(file):
                found = parse_jsonl(block, names)
                plain = _transposed(_lines(_text(io.BytesIO(block)), line, path), n, names, path, row)
                for columns in plain if found is None else _slices(found, n):
                    row += max(map(len, columns.values()))
                    yield columns, share()
                line += block.count(b"\n")

    return batches


def _lines(file: Iterable[str], before: int, path: Path) -> Iterator[Any]:
    for number, line in enumerate(file, before + 1):
        if line.strip():
            try:
                yield json.loads(line, object_pairs_hook=each_key_once)
            except ValueError as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise InputError(
                    f"Expected an object in line {number} of {path.name}, but it is no JSON ({reason}). Correct it."
                ) from error


def _json(path: Path) -> Batches:
    held: dict[str, list[Array | list[Any]]] = {}  # columns can only be walked together once all are known

    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        if not held:
            file, share = _open(path)
            with _text(file) as text:
                found = rows_or_columns(text)
                if not isinstance(found, dict):
                    yield from ((columns, share()) for columns in _transposed(found, n, names, path))
                    return
                held.update(found)
        chosen = {name: held[name] for name in (held if names is None else names)}
        lengths = {name: sum(map(len, blocks)) for name, blocks in chosen.items()}
        if names is not None and len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"Expected lists of one length, but got {sizes} in {path.name}. Save all rows of each.")
        most = max((len(blocks) for blocks in chosen.values()), default=0)
        for i in range(most):
            yield {name: blocks[i] for name, blocks in chosen.items() if i < len(blocks)}, (i + 1) / most

    return batches


def _transposed(
    records: Iterator[Any], n: int, names: Sequence[str] | None, path: Path, start: int = 0
) -> Iterator[Columns]:
    first = next(records, None)
    if first is None:
        return
    rows = chain([first], records)
    while some := list(islice(rows, n)):
        if odd := [i for i, row in enumerate(some) if not isinstance(row, dict)]:
            raise InputError(f"Expected an object per row, but row {start + odd[0]} is none in {path.name}.")
        wanted = list(first) if names is None else names
        yield {name: [row.get(name) for row in some] for name in wanted}  # None is a gap, as null is
        start += len(some)


def _parquet(path: Path) -> Batches:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            "Expected pyarrow to read .parquet, but it is not installed. Run pip install 'surefoot[files]'."
        ) from error

    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        # Small buffers, one per column: a map of the file would count as memory, and so would whole row groups.
        with ExitStack() as opened:
            here = opened.enter_context(path.open("rb")) if is_address(path) else path
            file = opened.enter_context(parquet.ParquetFile(here, pre_buffer=False, buffer_size=1 << 14))
            _check_once(file.schema_arrow.names, path)
            groups, total = _groups_in_view(file.metadata)
            done = 0
            for batch in file.iter_batches(batch_size=n, row_groups=groups, columns=names, use_threads=False):
                done += len(batch)
                pairs = zip(batch.schema.names, batch.columns, strict=True)
                yield {name: _arrow_column(column) for name, column in pairs}, done / total

    return batches


def _groups_in_view(metadata: Any) -> tuple[list[int], int]:
    """Return the row groups that are to be read, and how many rows they have: those that begin in view."""
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    first, last = rows_in_view(metadata.num_rows)
    starts = [sum(sizes[:number]) for number in range(len(sizes))] if first or last < metadata.num_rows else []
    chosen = [number for number, start in enumerate(starts) if first <= start < last] if starts else None
    kept = list(range(len(sizes))) if chosen is None else chosen
    return kept, max(1, sum(sizes[number] for number in kept))


def _feather(path: Path) -> Batches:
    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        for batch, share in record_batches(path, n, names):
            _check_once(batch.schema.names, path)
            pairs = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: _arrow_column(column) for name, column in pairs}, share

    return batches


def _arrow_column(column: Any) -> Sequence[Any] | Array:
    from pyarrow import compute, types

    kind = column.type
    if not column.null_count and (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        sizes = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(sizes) != 1:  # choices of its own in every row
            rows: list[Any] = column.to_pylist()
            return rows
        flat: Array = column.flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(column), sizes[0])
    if types.is_integer(kind) or types.is_floating(kind):
        numbers: Array = column.to_numpy(zero_copy_only=False)
        return numbers
    values: list[Any] = column.to_pylist()
    return values


_READERS: dict[str, Callable[[Path], Batches]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".txt": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
    ".feather": _feather,
    ".arrow": _feather,
}
TABLES = tuple(_READERS)
_TEXTS = (".csv", ".tsv", ".txt")
