"""What a JSON file may hold where a number was meant."""

from __future__ import annotations

from typing import Any

_LARGEST = 1e300


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number that can be counted with; JSON has whole numbers of any length.

    Example:
        >>> [is_number(value) for value in (3, 0.5, True, "3", None, 10**400, float("nan"))]
        [True, True, False, False, False, False, False]
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST
