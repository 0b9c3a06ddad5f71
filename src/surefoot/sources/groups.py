"""What ``--group`` asks for: a column, one in parts (``age:4``), or several crossed (``sex*age``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from surefoot.errors import InputError

MOST_PARTS = 20
_PARTS = re.compile(r"^(?P<column>.+):(?P<parts>\d+)$")


@dataclass(frozen=True)
class Part:
    """One column of a group.

    Attributes:
        column: Its name.
        parts: Into how many parts of about as many rows its numbers are divided; None where nobody said.
    """

    column: str
    parts: int | None = None


def read_group(text: str, known: Collection[str]) -> tuple[Part, ...]:
    """Read what rows are to be divided by.

    Args:
        text: As it was asked for. What is the name of a column is that column, whatever else it could mean.
        known: The columns that there are.

    Returns:
        One column, or several that are crossed.

    Raises:
        InputError: If the number of parts makes no sense.

    Example:
        >>> read_group("sex*age:4", ["sex", "age"])
        (Part(column='sex', parts=None), Part(column='age', parts=4))
        >>> read_group("a*b", ["a*b"])
        (Part(column='a*b', parts=None),)
    """
    if text in known:
        return (Part(text),)
    return tuple(_part(each.strip(), text, known) for each in text.split("*"))


def _part(text: str, whole: str, known: Collection[str]) -> Part:
    match = _PARTS.match(text)
    if text in known or match is None:
        return Part(text)
    parts = int(match["parts"])
    if not 2 <= parts <= MOST_PARTS:
        raise InputError(
            f"Expected 2 to {MOST_PARTS} parts, but got {parts} in --group {whole}. Say {match['column']}:5."
        )
    return Part(match["column"], parts)


def group_columns(groups: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """List the columns that groups take.

    Args:
        groups: As they were asked for.
        known: The columns that there are.

    Returns:
        Each column once.

    Example:
        >>> group_columns(["sex", "sex*age"], ["sex", "age"])
        ('sex', 'age')
    """
    return tuple(dict.fromkeys(part.column for group in groups for part in read_group(group, known)))
