"""Files that are either whole or not there: write aside, fsync, rename.

What a killed process left aside is removed by the next one that writes the same file. Whoever writes holds a lock on
what it has aside, which goes away with the process, so that nobody takes a file from under another's hands.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path, ending: str = "") -> Iterator[Path]:
    """Give a place to write a file anew, and put it into its own place in one move when all of it is there.

    Args:
        path: The file.
        ending: Of the name of that place, for writers that go by it.

    Yields:
        An empty file beside it; of what is no file, such as ``/dev/stdout``, itself.
    """
    if _is_stream(path):
        yield path
        return
    remove_left(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp{ending}")
    try:
        with aside.open("wb") as held:
            _lock(held.fileno())
            yield aside
            with aside.open("rb") as file:
                os.fsync(file.fileno())
            aside.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error says what is wrong
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in one move.

    Args:
        path: The file.
        content: All of it.
    """
    with replacing(path) as aside:
        aside.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text in one move."""
    write_bytes(path, text.encode(errors="backslashreplace"))  # names of files may be no text


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a JSON text that people can read."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def remove_left(path: Path) -> None:
    """Remove what processes that are no more left aside of a file.

    Args:
        path: The file itself.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp*"):
        number = left.name.removeprefix(f".{path.name}.").partition(".tmp")[0]
        with suppress(OSError):
            if number.isdecimal() and not left.is_symlink() and left.is_file() and not _is_held(left):
                left.unlink()


def sync_folder(path: Path) -> None:
    """Make renames inside a folder last through a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_stream(path: Path) -> bool:
    """Return whether a path leads to a pipe, a terminal or the like, or to what the shell has opened."""
    is_device = path.parent in (Path("/dev"), Path("/dev/fd")) or Path("/proc") in path.parents
    return is_device or (path.exists() and not path.is_file())


def _lock(handle: int) -> None:
    with suppress(OSError):  # file systems that know no locks
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
