"""JSON lines: files that grow by whole lines, of which a killed process may leave the last one torn."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def to_lines(records: Iterable[Record]) -> bytes:
    """Write one line per record."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def append_lines(path: Path, records: Iterable[Record], *, sync: bool = False) -> int:
    """Add lines to a file.

    Args:
        path: The file; it need not exist yet.
        records: One per line.
        sync: Wait until they are on the disk.

    Returns:
        Its size in bytes.
    """
    with path.open("ab") as file:
        file.write(to_lines(records))
        file.flush()
        if sync:
            os.fsync(file.fileno())
        return file.tell()


def read_lines(path: Path) -> list[Record]:
    """Read all whole lines; none where there is no file."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]  # behind the last newline is nothing, or a torn line
