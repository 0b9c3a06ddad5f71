"""JSON read through a window, so that a large file is never in memory as text and as objects at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from surefoot.sources.labels import Array

_WINDOW = 1 << 18  # characters read at once
_ROWS = 8192  # of a column turned into an array at once

Columns = dict[str, list[Array | list[Any]]]


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its keys and values, and refuse a key that comes twice: one of its values would be lost.

    Args:
        pairs: In the order of the text.

    Returns:
        The object.

    Raises:
        ValueError: If a key comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} comes twice in one object")
    return found


class _Window:
    """The part of a JSON text that is being looked at."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._text, self._at, self._ended = file, "", 0, False
        self._decode = json.JSONDecoder(object_pairs_hook=each_key_once).raw_decode

    def _more(self) -> bool:
        piece = self._file.read(max(_WINDOW, len(self._text) - self._at))
        self._text, self._at, self._ended = self._text[self._at :] + piece, 0, not piece
        return bool(piece)

    def peek(self) -> str:
        """Return the next character that is no blank, or nothing at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self, wanted: str) -> str:
        """Go past the next character, which must be one of those wanted."""
        found = self.peek()
        if not found or found not in wanted:
            raise ValueError(f"{' or '.join(wanted)} should stand before {self._text[self._at : self._at + 20]!r}")
        self._at += 1
        return found

    def value(self) -> Any:
        """Read one whole value."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more():
                    raise
                continue
            if end < len(self._text) or self._ended or not self._more():  # a number may go on beyond the window
                self._at = end
                return value

    def end(self) -> None:
        """Refuse what stands behind the end."""
        if found := self.peek():
            rows = ": a list of rows needs [ and ], and one object per line the ending .jsonl" if found == "{" else ""
            raise ValueError(f"{self._text[self._at : self._at + 20]!r} stands behind its end{rows}")

    def items(self) -> Iterator[Any]:
        """Read the items of a list one by one."""
        self.skip("[")
        if self.peek() == "]":
            self.skip("]")
            return
        while True:
            yield self.value()
            if self.skip(",]") == "]":
                return


def rows_or_columns(file: IO[str]) -> Iterator[dict[str, Any]] | Columns:
    """Read a list of rows, or an object of columns.

    Args:
        file: The text.

    Returns:
        The rows one by one, or all columns in blocks of equal length; what is no list is left out.

    Raises:
        ValueError: If it is neither, or no JSON.
    """
    window = _Window(file)
    first = window.peek()
    if first == "[":
        return _to_the_end(window)
    if first != "{":
        raise ValueError("it is neither a list of rows nor an object of columns")
    window.skip("{")
    columns: Columns = {}
    seen: list[tuple[str, Any]] = []
    while seen or window.peek() != "}":
        key = window.value()
        if not isinstance(key, str):
            raise ValueError(f"a key in double quotes should stand instead of {str(key)[:20]!r}")
        window.skip(":")
        seen.append((key, None))
        each_key_once(seen)
        if window.peek() == "[":
            columns[key] = list(_blocks(window.items()))
        else:
            window.value()
        if window.skip(",}") == "}":
            window.end()
            return columns
    window.skip("}")
    window.end()
    return columns


def _to_the_end(window: _Window) -> Iterator[dict[str, Any]]:
    yield from window.items()
    window.end()


def _blocks(items: Iterator[Any]) -> Iterator[Array | list[Any]]:
    while some := [item for _, item in zip(range(_ROWS), items, strict=False)]:
        try:
            yield np.array(some)
        except ValueError:  # lists of different lengths
            yield some
