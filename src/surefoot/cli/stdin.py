"""Predictions that come through a pipe, kept in a temporary file while they are read."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from surefoot.errors import InputError
from surefoot.places import place

FORMATS = ("csv", "tsv", "jsonl", "json", "npz", "npy", "parquet", "arrow")
FORMAT = f"What comes through a pipe (-): {', '.join(FORMATS)}. Default: by its first bytes."
_BYTES = 1 << 16
_MARKS = ((b"PK\x03\x04", "npz"), (b"\x93NUMPY", "npy"), (b"PAR1", "parquet"), (b"ARROW1", "arrow"))


@contextlib.contextmanager
def with_stdin(files: Sequence[Path], format: str | None) -> Iterator[list[Path]]:
    """Put a file in the place of ``-`` while the block lasts; it holds what standard input gave.

    Args:
        files: As they were typed.
        format: What comes, where its first bytes do not tell.

    Yields:
        The files, that of standard input called ``stdin`` with the ending of its format.

    Raises:
        InputError: If nothing comes, or it does not tell what it is.
    """
    files = [place(path) for path in files]
    pipes = [path for path in files if str(path) == "-"]
    if format is not None and (not pipes or format not in FORMATS):
        wanted = f"one of {', '.join(FORMATS)}" if pipes else "standard input (-) beside it"
        raise InputError(f"Expected --format to have {wanted}, but got {format!r}. Leave it out for files.")
    if len(pipes) > 1:
        raise InputError("Expected - once, for there is one standard input, but got it twice. Name files.")
    if not pipes:
        yield list(files)
        return
    if sys.stdin.isatty():
        raise InputError(
            "Expected predictions through a pipe, but standard input is a terminal. Write … | surefoot audit -"
        )
    with tempfile.TemporaryDirectory() as folder:
        spooled = _spool(sys.stdin.buffer, Path(folder), format)
        yield [spooled if str(path) == "-" else path for path in files]


def _spool(stream: IO[bytes], folder: Path, format: str | None) -> Path:
    first = stream.read(_BYTES)
    if not first:
        raise InputError("Expected predictions through a pipe, but nothing came. Check the command before it.")
    whole = folder / "stdin"
    with whole.open("wb") as file:
        file.write(first)
        shutil.copyfileobj(stream, file, _BYTES)
    packed = first.startswith(b"\x1f\x8b")
    found = format or _format(_unpacked(first) if packed else first)
    return whole.rename(folder / f"stdin.{found}{'.gz' if packed else ''}")


def _unpacked(first: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(first)
    except zlib.error as error:
        raise InputError(
            f"Expected a whole .gz through the pipe, but it cannot be read ({error}). Check it."
        ) from error


def _format(first: bytes) -> str:
    """Tell the format by the first bytes."""
    for mark, found in _MARKS:
        if first.startswith(mark):
            return found
    if first[:1] == b"\x80" or b"\x00" in first:
        raise InputError(
            "Expected csv, jsonl, json, npz, npy, parquet or arrow through the pipe, but its first bytes are of none "
            "of these. Say --format, or send one of these."
        )
    text = first.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"["):
        return "json"
    return _lines_or_one(text) if text.startswith(b"{") else "csv"


def _lines_or_one(text: bytes) -> str:
    """Tell an object per line from one object of columns."""
    line, mark, rest = text.partition(b"\n")
    try:
        found = json.loads(line)
    except ValueError:
        return "jsonl" if not mark else "json"  # cut off, or laid out over several lines
    return "json" if not rest.strip() and all(isinstance(value, list) for value in found.values()) else "jsonl"
