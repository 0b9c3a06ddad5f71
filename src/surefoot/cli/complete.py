"""Names for the shell to complete, read off the files of the parts: importing them would take seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

_NAME = re.compile(r'^@[A-Z]+\.register\(\s*"([^"]+)"', re.MULTILINE)


def names_in(*rooms: str) -> list[str]:
    """List the parts that are registered in the files of some rooms.

    Args:
        rooms: Folders of the package.

    Returns:
        Their names.

    Example:
        >>> "csam" in names_in("optim", "losses")
        True
    """
    home = Path(__file__).parents[1]
    files = [file for room in rooms for file in sorted((home / room).glob("*.py"))]
    return sorted({name for file in files for name in _NAME.findall(file.read_text(encoding="utf-8"))})


def completing(*rooms: str, after: str = "") -> Callable[[str], list[str]]:
    """Make a completion of parts.

    Args:
        rooms: Folders of the package.
        after: What may stand before a name, such as the commas between methods.

    Returns:
        A function from what was typed so far to what it may become.
    """

    def complete(incomplete: str) -> list[str]:
        cut = max((incomplete.rfind(mark) for mark in after), default=-1) + 1
        typed = incomplete[cut:]
        begun = incomplete[:cut] + typed[: len(typed) - len(typed.lstrip())]
        return [begun + name for name in names_in(*rooms) if name.startswith(typed.lstrip())]

    return complete


_METHODS = ("optim", "losses", "ensembles")
_TRAINING = {
    "methods": completing(*_METHODS, after=",+"),
    "method": completing(*_METHODS, after="+"),
    "grid": completing(*_METHODS, after="+"),
    "search": completing(*_METHODS, after="+"),
    "data": completing("data"),
    "model": completing("models"),
    "augment": completing("data/augment", after="+"),
    "track": completing("trackers", after=","),
}
# By command and option.
COMPLETED: dict[str, dict[str, Callable[[str], list[str]]]] = {
    "train": _TRAINING,
    "compare": _TRAINING,
    "calibrate": {"method": completing("calibrators")},
    "conformal": {"method": completing("prediction_sets")},
}
