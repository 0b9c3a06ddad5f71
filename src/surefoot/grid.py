"""Sweeps: ``csam:rho=0.05|0.1|0.2,gamma=0|1|2`` names nine methods."""

from __future__ import annotations

import re
from itertools import product

from surefoot.errors import InputError

_WORD = r"(?:(?!\+\s*[A-Za-z_])[^,:=|\s])+"  # up to the next option or part; the plus of 1e+3 belongs to it
_CHOICE = re.compile(rf"{_WORD}(?:\s*\|\s*{_WORD})+")


def expand_grid(text: str) -> list[str]:
    """Write out every method that a grid names.

    Args:
        text: A method in which values, or names, are separated by ``|``.

    Returns:
        One method per combination; the last choice varies fastest.

    Raises:
        InputError: If there is nothing to choose from.

    Example:
        >>> expand_grid("focal:gamma=1|2 + csam:rho=0.1|0.2")[:2]
        ['focal:gamma=1 + csam:rho=0.1', 'focal:gamma=1 + csam:rho=0.2']
    """
    places = list(_CHOICE.finditer(text))
    if not places or "|" in _CHOICE.sub("", text):
        raise InputError(
            f"Expected a grid with values to choose from, but got {text!r}. Write csam:rho=0.05|0.1,gamma=0|1."
        )
    choices = [[word.strip() for word in place[0].split("|")] for place in places]
    found = []
    for chosen in product(*choices):
        rest = iter(chosen)
        found.append(_CHOICE.sub(lambda _, words=rest: next(words), text).strip())  # type: ignore[misc]  # a default binds the loop's variable
    return list(dict.fromkeys(found))
