"""JSON objects of a run, refused where they are damaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.json_values import is_number
from surefoot.records._lines import ANEW


def read_object(path: Path, numbers: Sequence[str] = ()) -> dict[str, Any]:
    """Read an object.

    Args:
        path: The file.
        numbers: Keys that must be there, with a number.

    Returns:
        The object.

    Raises:
        InputError: If the file holds none, or a number is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    is_ours = isinstance(found, dict) and all(is_number(found.get(key)) for key in numbers)
    if not is_ours:
        raise InputError(f"Expected what surefoot wrote, but {path} is damaged. {ANEW}")
    return dict(found)
