"""Text parsed by pyarrow, a block of whole lines at a time; what it cannot parse is left to the plain readers."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

Columns = dict[str, Sequence[Any] | np.ndarray[Any, Any]]
_BYTES = 1 << 22
_BLOCKS = 4  # that a value within quotes may reach over


def blocks_of_lines(file: IO[bytes], *, quotes: bool = False) -> Iterator[bytes]:
    """Read whole lines, some megabytes at a time.

    Args:
        file: Where to go on reading.
        quotes: Whether a line may go on within double quotes: then a block never ends within them. Where none of
            several blocks can end, a quote is missing or is no quotation mark: reading stops, with the file before it.

    Yields:
        Blocks that end with a line.
    """
    rest = b""
    while block := file.read(_BYTES):
        whole, mark, tail = (rest + block).rpartition(b"\n")
        if mark and not (quotes and whole.count(b'"') % 2):
            yield whole + mark
            rest = tail
        else:
            rest += block
            if quotes and len(rest) > _BLOCKS * _BYTES:
                file.seek(file.tell() - len(rest))
                return
    if rest:
        yield rest


def parse_csv(
    block: bytes, header: Sequence[str], delimiter: str, names: Sequence[str], numbers: Sequence[str]
) -> Columns | None:
    """Parse lines of values.

    Args:
        block: Whole lines.
        header: Names of all columns.
        delimiter: Between values.
        names: Columns wanted.
        numbers: Those of them that hold numbers; the others stay text.

    Returns:
        Columns by name, or None where a plain reader has to look: values that are no numbers, lines of another length.
    """
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(
            io.BytesIO(block),
            read_options=csv.ReadOptions(column_names=list(header), use_threads=False, block_size=2 * len(block) + 1),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in block),
            convert_options=csv.ConvertOptions(
                column_types={name: pa.float64() if name in numbers else pa.string() for name in names},
                include_columns=list(dict.fromkeys(names)),
                null_values=[],  # so that an empty value is an error, not a gap
                check_utf8=True,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return {name: table[name].to_numpy() if name in numbers else table[name].to_pylist() for name in table.column_names}


def parse_jsonl(block: bytes, names: Sequence[str]) -> Columns | None:
    """Parse a line per row.

    Args:
        block: Whole lines.
        names: Keys wanted.

    Returns:
        Columns by name, lists of numbers as two-dimensional arrays; or None where a plain reader has to look.
    """
    import pyarrow as pa
    from pyarrow import json

    try:
        options = json.ReadOptions(use_threads=False, block_size=2 * len(block) + 1)
        table = json.read_json(io.BytesIO(block), read_options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    lines = sum(1 for line in block.split(b"\n") if line.strip())
    if len(table) != lines or not set(names) <= set(table.column_names):  # several objects in a line are no JSON Lines
        return None
    columns = {name: _values(table[name].combine_chunks()) for name in names}
    return None if any(values is None for values in columns.values()) else columns  # type: ignore[return-value]  # none is None then


def _values(column: Any) -> Sequence[Any] | np.ndarray[Any, Any] | None:
    from pyarrow import types

    if column.null_count:
        return None
    if types.is_string(column.type):
        texts: list[str] = column.to_pylist()
        return texts
    if types.is_integer(column.type) or types.is_floating(column.type):
        numbers: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
        return numbers
    if not types.is_list(column.type) or not len(column):
        return None
    flat, sizes = column.flatten(), np.diff(column.offsets.to_numpy())
    inner = flat.type
    plain = types.is_integer(inner) or types.is_floating(inner)
    if flat.null_count or not plain or (sizes != sizes[0]).any():
        return None
    rows: np.ndarray[Any, Any] = flat.to_numpy(zero_copy_only=False)
    return rows.reshape(len(column), -1)
