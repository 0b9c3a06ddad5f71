"""Tables of Arrow in a file, as pandas, polars and datasets write them: ``.feather`` and ``.arrow``."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.places import is_address

_STREAM = b"\xff\xff\xff\xff"  # how messages of Arrow begin since 2019
_LONGEST = 1 << 28  # bytes that describe columns


def _check_stream(file: Any, path: Path) -> None:
    """Refuse what does not begin as a stream does: its first bytes would be taken for a length, and reserved."""
    start = bytes(file.read(8))
    file.seek(0)
    if not start.startswith(_STREAM) or int.from_bytes(start[4:8], "little") > _LONGEST:
        raise InputError(f"Expected a whole {path.suffix} file, but {path.name} is none. Check it.")


def record_batches(path: Path, n: int, names: Sequence[str] | None) -> Generator[tuple[Any, float | None]]:
    """Read some rows at a time.

    Args:
        path: In the format for files, or in that for streams.
        n: Most rows at once.
        names: Columns wanted; else all.

    Yields:
        Batches of pyarrow, and how much of the file has been read where that is known.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise InputError(
            f"Expected pyarrow to read {path.suffix}, but it is not installed. Run pip install 'surefoot[files]'."
        ) from error
    with pa.PythonFile(path.open("rb"), mode="r") if is_address(path) else pa.OSFile(str(path)) as file:
        try:
            reader: Any = pa.ipc.open_file(file)
            parts = (
                (reader.get_batch(i), (i + 1) / reader.num_record_batches) for i in range(reader.num_record_batches)
            )
        except pa.ArrowInvalid:
            file.seek(0)
            _check_stream(file, path)
            reader = pa.ipc.open_stream(file)
            parts = ((batch, None) for batch in reader)
        for part, share in parts:
            batch = part if names is None else part.select(list(dict.fromkeys(names)))
            for start in range(0, len(batch), n):
                yield batch.slice(start, n), share
