"""Whether the first line of a table in text holds names or is the first row."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import islice
from typing import IO

from surefoot.errors import InputError
from surefoot.sources._cells import number
from surefoot.sources.labels import MISSING, whole

LINES = 20  # after the first, by which an unclear one is told


def read_header(file: IO[bytes], said: bool | None, where: str) -> tuple[str, list[str] | None, int]:
    """Read the first line, and leave the file at the first row.

    Args:
        file: At its start.
        said: Whether the first line is a header, where somebody said so.
        where: The file, for messages.

    Returns:
        What stands between values; the names, None if there are none; and how many columns there are.

    Raises:
        InputError: If the first line could be names or a row.
    """
    place = file.tell()
    first = file.readline().decode()
    delimiter = max(",;\t|", key=lambda mark: len(next(csv.reader([first], delimiter=mark), ())))
    cells = next(csv.reader([first], delimiter=delimiter), [])
    if len(cells) == 1 and len(apart := first.split()) > 1 and _is_row(apart) and first.count(" ") < len(apart):
        delimiter, cells = " ", apart  # as NumPy writes texts
    after = file.tell()
    rest = [line.decode(errors="replace") for line in islice(iter(file.readline, b""), LINES)]
    header = header_of(cells, list(csv.reader(rest, delimiter=delimiter)), said, where) if cells else []
    file.seek(place if header is None else after)
    return delimiter, header, len(cells)


def header_of(first: Sequence[str], rest: Sequence[Sequence[str]], said: bool | None, where: str) -> list[str] | None:
    """Read the names of the columns.

    Args:
        first: Cells of the first line.
        rest: Those of some lines after it.
        said: Whether the first line is a header, where somebody said so.
        where: The file, for messages.

    Returns:
        The names; None if there are none, for all cells of the first line are numbers.

    Raises:
        InputError: If the first line could be either.

    Example:
        >>> header_of(["label", "p0"], [], None, "a.csv"), header_of(["0.2", "0.8"], [], None, "a.csv")
        (['label', 'p0'], None)
        >>> header_of(["0", "1", "2"], [["0.1", "0.2", "0.7"]], None, "a.csv")  # columns called by numbers
        ['0', '1', '2']
    """
    names = [name.strip() for name in first]
    if said is not None:
        return names if said else None
    if not _is_row(names):
        return names
    numbers = [whole(name) for name in names if name.lower() not in MISSING]
    if numbers not in (list(range(len(numbers))), list(range(1, len(numbers) + 1))) or not all(map(_is_plain, names)):
        return None
    if len(names) > 2 or (numbers[0] == 1 and len(names) > 1):
        return names  # 0, 1, 2, …: nobody's scores, but what columns without a name are called
    cells = [cell.strip() for row in rest for cell in row]
    if cells and not any(_is_plain(cell) for cell in cells):
        return names  # whoever writes 0.0 and 1.0 does not write 0 and 1
    if len(names) == 1:
        return None if all(_is_plain(cell) for cell in cells) else _unclear(names, where)
    return _unclear(names, where)


def _unclear(names: Sequence[str], where: str) -> list[str]:
    raise InputError(
        f"Expected names or numbers in the first line, but {','.join(names)} could be the names of columns or a row in "
        f"{where}. Say --header or --no-header."
    )


def _is_row(names: Sequence[str]) -> bool:
    try:
        found = [number(name) for name in names]
    except ValueError:
        return False
    return any(value == value for value in found)


def _is_plain(cell: str) -> bool:
    return cell.isdecimal() or not cell


def is_fraction(name: str) -> bool:
    """Return whether a name is a number that counts nothing, such as 0.25, so that it may be a value.

    Example:
        >>> is_fraction("0.25"), is_fraction("2"), is_fraction("cat"), is_fraction("inf")
        (True, False, False, False)
    """
    try:
        value = float(name)
    except ValueError:
        return False
    return value % 1 != 0 and abs(value) < float("inf")
