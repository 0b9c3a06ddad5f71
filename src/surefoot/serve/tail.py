"""What was added to a growing file since it was last looked at."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

Record = dict[str, Any]
AT_ONCE = 1 << 25  # bytes of a growing file
LARGEST = 1 << 24  # bytes of a file that is one object


class Tail:
    """Reads the lines of a file of JSON lines as they come, of a long one some at a time.

    It remembers how far it has read and of which file. One that was cut back, replaced or removed starts anew: a run
    that goes on cuts off what is behind its checkpoint.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset, self._inode, self._last = 0, -1, b""

    def read(self) -> tuple[bool, list[Record]]:
        """Read on.

        Returns:
            Whether everything of before is void, and the records since; a line that is not whole yet waits.
        """
        handle = _open_regular(self.path)
        if handle is None:
            anew, self._offset, self._inode, self._last = self._offset > 0, 0, -1, b""
            return anew, []
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            anew = self._offset > 0 and not self._is_same(file, found)
            if anew:
                self._offset = 0
            self._inode = found.st_ino
            file.seek(self._offset)
            piece = file.read(AT_ONCE)
        whole, newline, _ = piece.rpartition(b"\n")
        if len(piece) == AT_ONCE and not newline:  # no line of a run is as long: it is passed over
            self._offset, self._last, whole = self._offset + AT_ONCE, piece[-64:], b""
        elif newline:
            self._offset += len(whole) + 1
            self._last = whole[-64:] + b"\n"
        return anew, parse(whole)

    def _is_same(self, file: Any, found: os.stat_result) -> bool:
        """Say whether what was read is still there: the same file, as long at least, the same bytes before here."""
        if found.st_ino != self._inode or found.st_size < self._offset:
            return False
        file.seek(self._offset - len(self._last))
        return bool(file.read(len(self._last)) == self._last)


def newest_of_each(path: Path, size: int = 1 << 18) -> tuple[Record, Record]:
    """Find the last step and the last look at the quality, without reading the JSON of all the other lines.

    Args:
        path: ``steps.jsonl``.
        size: How many bytes to look at, from the end.

    Returns:
        The two records, empty where they are not among the last bytes.
    """
    step: list[Record] = []
    look: list[Record] = []
    for line in reversed(_end(path, size).split(b"\n")):
        if not step and b'"tracker"' not in line:
            step = parse(line)
        elif not look and b'"tracker": "quality"' in line:
            look = parse(line)
        if step and look:
            break
    return (step or [{}])[0], (look or [{}])[0]


def _end(path: Path, size: int) -> bytes:
    """Return the whole lines within the last bytes of a file."""
    handle = _open_regular(path)
    if handle is None:
        return b""
    with os.fdopen(handle, "rb") as file:
        start = max(0, os.fstat(file.fileno()).st_size - size)
        file.seek(start)
        content = file.read(size).rpartition(b"\n")[0]
    return content.partition(b"\n")[2] if start else content


def parse(lines: bytes) -> list[Record]:
    r"""Read JSON lines; those that are no JSON object are left out, whoever wrote them.

    Example:
        >>> parse(b'{"step": 1}\nnonsense\n{"step": 2}')
        [{'step': 1}, {'step': 2}]
    """
    each = [line for line in lines.split(b"\n") if line]
    try:  # all at once: several times quicker than one by one
        found = json.loads(b"[" + b",".join(each) + b"]")
    except (ValueError, RecursionError):
        found = [_value(line) for line in each]
    return [record for record in found if isinstance(record, dict)]


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _open_regular(path: Path) -> int | None:
    """Open a file to read; None where it is not there or no ordinary file, which could keep us waiting for ever."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_object(path: Path) -> Record | None:
    """Read a small JSON file; None where it is not there, not whole, or no object."""
    handle = _open_regular(path)
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as file:
        found = _value(file.read(LARGEST))
    return found if isinstance(found, dict) else None
