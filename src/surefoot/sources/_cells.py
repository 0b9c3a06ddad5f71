"""Values of a table's columns as numbers and labels; what is missing is NaN or an empty text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.sources.choices import padded
from surefoot.sources.labels import MISSING, Array, several_classes

Column = Sequence[Any] | Array


def number(value: Any) -> float:
    """Read a number; NaN where a table says in one of the usual ways that there is none.

    Example:
        >>> number("0.5"), number(""), number("N/A"), number(None)
        (0.5, nan, nan, nan)
    """
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return float("nan")
    try:
        return float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return float("inf") if value > 0 else float("-inf")


def numbers_or_none(values: Column) -> Array | None:
    """Read a column of single numbers, gaps as NaN; None if it holds something else, or nothing at all."""
    try:
        found = np.array([number(value) for value in values])
    except (TypeError, ValueError):
        return None
    return found if found.ndim == 1 and np.isfinite(found).any() else None


def floats(values: Column, name: str, start: int, where: str) -> Array:
    """Read a column of numbers or of lists of numbers, gaps as NaN.

    Args:
        values: Some rows.
        name: What the column is called.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Shape ``(n,)`` or ``(n, classes)``.

    Raises:
        InputError: If there is something else in it.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return values
    try:
        if isinstance(values[0], str):
            return np.fromiter(map(float, values), np.float64, len(values))
        return np.array(values, np.float64)
    except (OverflowError, ValueError, TypeError):  # a whole number of hundreds of digits, a gap, or something else
        return _with_gaps(values, name, start, where)


def choices(values: Column, name: str, start: int, where: str) -> tuple[Array, Array]:
    """Read a column of lists of different lengths; gaps among them are NaN.

    Args:
        values: Some rows.
        name: What the column is called.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Shape ``(n, most)`` with −∞ behind the end of a shorter list, and the lengths.
    """
    rows = []
    for row, value in enumerate(values):
        try:
            rows.append([number(each) for each in (value if isinstance(value, list | tuple) else [value])])
        except (ValueError, TypeError) as error:
            raise _no_numbers(name, start + row, value, where) from error
    return padded(rows, start, where)


def _with_gaps(values: Column, name: str, start: int, where: str) -> Array:
    lengths = sorted({len(value) for value in values if isinstance(value, list)})
    if len(lengths) > 1:
        raise InputError(
            f"Expected as many scores in every row, but got {lengths[:4]} in {where}. Complete the short ones."
        )
    rows = []
    for row, value in enumerate(values):
        try:
            many = [value] * lengths[0] if lengths and value is None else value
            rows.append([number(each) for each in many] if lengths else number(value))
        except (ValueError, TypeError) as error:
            raise _no_numbers(name, start + row, value, where) from error
    return np.array(rows, np.float64)


def _no_numbers(name: str, row: int, value: Any, where: str) -> InputError:
    shown = value.item() if isinstance(value, np.generic) else value
    return InputError(f"Expected numbers in {name!r}, but row {row} has {shown!r} in {where}. Leave it out.")


def labels(values: Column, start: int, where: str) -> Array:
    """Read a column of labels: numbers, texts, or lists as wide as the scores.

    Args:
        values: Some rows.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Numbers or texts; a label that is missing among others makes them texts.

    Raises:
        InputError: If rows have lists of different lengths: several true classes.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    if any(value is None or isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    sizes = [len(value) if isinstance(value, list | np.ndarray) else 1 for value in values]
    odd = next((row for row, size in enumerate(sizes) if size != sizes[0]), None)
    if odd is not None:
        row = max((0, odd), key=lambda row: sizes[row])
        raise several_classes(start + row, str(sizes[row]), where)
    return np.asarray(values)


def texts(values: Column) -> Array:
    """Read a column of groups; rows without a value are a group of their own."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    found = ["" if value is None else str(value) for value in values]
    return np.array(["(missing)" if text.strip().lower() in ("", "nan") else text for text in found])
