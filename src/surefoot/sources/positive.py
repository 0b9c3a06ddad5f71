"""Which of two classes is the one that matters."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.errors import InputError
from surefoot.sources.labels import whole

_YES = {"1", "true", "yes", "y", "t", "positive", "pos", "event", "case", "present", "sick", "ill", "diseased"}
_NO = {"0", "false", "no", "n", "f", "negative", "neg", "none", "control", "absent", "healthy", "normal", "benign"}


@dataclass(frozen=True)
class Positive:
    """The class whose probability is the risk, the other one, and how it was chosen."""

    index: int
    name: str
    other: str
    how: str


def choose_positive(class_names: tuple[str, ...], asked: str | None, where: str) -> Positive:
    """Choose the positive class: as asked for, as the names say, else the second.

    Args:
        class_names: Of two classes; empty where they have none.
        asked: Name or number of a class.
        where: The file, for messages.

    Returns:
        The positive class.

    Raises:
        InputError: If there is no such class.

    Example:
        >>> choose_positive(("sick", "healthy"), None, "a.csv").name, choose_positive((), None, "a.csv").name
        ('sick', 'class 1')
    """
    shown = class_names or ("class 0", "class 1")
    if asked is not None:
        index, how = _asked(class_names, asked.strip(), where), "as you said"
    elif (told := yes_of(class_names)) is not None:
        index, how = told, "by its name; --positive chooses"
    else:
        index, how = 1, "the second class; --positive chooses"
    return Positive(index, shown[index], shown[1 - index], how)


def _asked(class_names: tuple[str, ...], asked: str, where: str) -> int:
    if asked in class_names:
        return class_names.index(asked)
    folded = [name.strip().lower() for name in class_names]
    if folded.count(asked.lower()) == 1:
        return folded.index(asked.lower())
    if asked in ("0", "1"):
        return int(asked)
    known = " or ".join((*class_names, "0", "1") if class_names else ("0", "1"))
    raise InputError(f"Expected --positive to be {known}, but got {asked!r}, which {where} does not have.")


def yes_of(class_names: tuple[str, ...]) -> int | None:
    """Find the class whose name says yes, or whose counterpart's says no, where only one does.

    Args:
        class_names: Of two classes; empty where they have none.

    Returns:
        Its place; None where names do not tell. Of numbers only 0 and 1 do.

    Example:
        >>> yes_of(("sick", "healthy")), yes_of(("1", "2")) is None
        (0, True)
    """
    folded = [name.strip().lower() for name in class_names]
    if set(folded) != {"0", "1"} and folded and all(whole(name) is not None for name in folded):
        return None
    yes = [name in _YES or other in _NO for name, other in zip(folded, reversed(folded), strict=True)]
    return yes.index(True) if sum(yes) == 1 else None
