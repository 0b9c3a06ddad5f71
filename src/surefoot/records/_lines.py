"""JSON lines: files that grow by whole lines, of which a killed process may leave the last one torn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from surefoot.errors import InputError

Record = dict[str, Any]
_encode = json.JSONEncoder(ensure_ascii=False).encode  # made once: a step's record is written at every step
ANEW = "Make the run anew with --fresh."  # what to do about a damaged one


def to_lines(records: Iterable[Record]) -> bytes:
    """Write one line per record."""
    return "".join(_encode(record) + "\n" for record in records).encode()


def append_lines(path: Path, records: Iterable[Record], *, sync: bool = False) -> int:
    """Add lines to a file.

    Args:
        path: The file; it need not exist yet.
        records: One per line.
        sync: Wait until they are on the disk.

    Returns:
        Its size in bytes.
    """
    cut_torn(path)
    with path.open("ab") as file:
        file.write(to_lines(records))
        file.flush()
        if sync:
            os.fsync(file.fileno())
        return file.tell()


def cut_torn(path: Path) -> None:
    """Remove what stands behind the last newline: a line that a killed process began, or a full disk did not take."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if not end or (file.seek(end - 1), file.read(1))[1] == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def keep_lines(path: Path, is_kept: Callable[[Record], bool]) -> None:
    """Cut a file back to its first lines that are whole and to be kept; the first other one goes with all behind it.

    Args:
        path: The file; it need not exist.
        is_kept: Says so of a record.
    """
    size = 0
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            break
        if not (line.endswith(b"\n") and isinstance(record, dict) and is_kept(record)):
            break
        size += len(line)
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)


def read_lines(path: Path, is_ours: Callable[[Record], bool]) -> list[Record]:
    """Read all whole lines; none where there is no file.

    Args:
        path: The file.
        is_ours: Says of a record whether it holds what belongs into this file.

    Returns:
        One record per line.

    Raises:
        InputError: If a line is no record, though others follow it, or not of this file.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]  # the last is empty, or torn
    try:  # all at once: several times quicker than one by one
        found = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        found = []
    if len(found) == len(lines) and all(isinstance(record, dict) and is_ours(record) for record in found):
        return list(found)
    return [_record(line, number, path, is_ours) for number, line in enumerate(lines, 1)]


def _record(line: bytes, number: int, path: Path, is_ours: Callable[[Record], bool]) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InputError(
            f"Expected one JSON object per line, but line {number} of {path} is none: the file is damaged. {ANEW}"
        )
    if not is_ours(record):
        raise InputError(
            f"Expected what surefoot wrote, but line {number} of {path} lacks something or holds another kind of "
            f"value: the file is damaged. {ANEW}"
        )
    return record
