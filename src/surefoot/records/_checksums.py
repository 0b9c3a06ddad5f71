"""Hashes of files that results depend on, so that a damaged one is refused instead of read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from surefoot.atomic import write_json
from surefoot.errors import InputError

CHECKSUMS = "checksums.json"
_PIECE = 1 << 20


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write the hashes of files beside them.

    Args:
        folder: Holds the files.
        names: Their names in it.
    """
    write_json(folder / CHECKSUMS, {name: hash_of(folder / name) for name in sorted(names)})


def check_file(folder: Path, name: str, todo: str) -> None:
    """Refuse a file that is not the one that was written; one without a hash, of an older version, is taken.

    Args:
        folder: Holds the file, and the hashes.
        name: Its name in the folder.
        todo: What to do about a damaged one.

    Raises:
        InputError: If it is damaged or missing.
    """
    known = read_checksums(folder, todo)
    if name in known:
        _compare(folder / name, known[name], todo)


def check_checksums(folder: Path, todo: str) -> None:
    """Do so with all files of a folder that have hashes."""
    for name, wanted in read_checksums(folder, todo).items():
        _compare(folder / name, wanted, todo)


def read_checksums(folder: Path, todo: str) -> dict[str, str]:
    """Read the hashes of a folder; none where an older version wrote it."""
    path = folder / CHECKSUMS
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): str(value) for name, value in found.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"Expected the hashes of files, but {path} is damaged. {todo}") from error


def _compare(path: Path, wanted: str, todo: str) -> None:
    if not path.is_file():
        raise InputError(f"Expected {path} as it was written, but it is missing. {todo}")
    if hash_of(path) != wanted:
        raise InputError(f"Expected {path} as it was written, but it is damaged: its hash is another. {todo}")


def hash_of(path: Path, size: int | None = None) -> str:
    """Return the hash of a file.

    Args:
        path: The file.
        size: How many of its first bytes; else all.

    Returns:
        Its SHA-256.
    """
    found, left = hashlib.sha256(), path.stat().st_size if size is None else size
    with path.open("rb") as file:
        while piece := file.read(min(_PIECE, left)):
            found.update(piece)
            left -= len(piece)
    return found.hexdigest()
