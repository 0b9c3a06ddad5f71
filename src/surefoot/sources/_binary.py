"""Two classes with one score per row: whose score it is, where labels are not 0 and 1."""

from __future__ import annotations

from surefoot.errors import InputError
from surefoot.sources._columns import class_of_column
from surefoot.sources.labels import whole
from surefoot.sources.positive import yes_of


def names_of_two(texts: set[str], column: str, asked: str | None, where: str) -> tuple[tuple[str, str], str] | None:
    """Name the two classes, that of the score last.

    The column's own name tells first (``prob_sick``), then what was asked for; of numbers the larger one is what
    happened, of names that which says yes.

    Args:
        texts: The different labels of all rows.
        column: What the scores are called.
        asked: The class that somebody named.
        where: The file, for messages.

    Returns:
        Both names, and how it was told; None where these are not two classes, or are 0 and 1.

    Raises:
        InputError: If nothing tells.

    Example:
        >>> names_of_two({"healthy", "sick"}, "risk", None, "a.csv")
        (('healthy', 'sick'), 'by their names')
        >>> names_of_two({"-1", "1"}, "score", None, "a.csv")
        (('-1', '1'), 'the larger label')
        >>> names_of_two({"well", "sick"}, "prob_sick", None, "a.csv")[0]
        ('well', 'sick')
    """
    if len(texts) != 2 or texts <= {"0", "1"}:
        return None
    ordered = sorted(texts, key=lambda text: (whole(text) is None, whole(text) or 0, text))
    chosen, how = _chosen(ordered, column, asked)
    if chosen is None:
        one, other = ordered
        raise InputError(
            f"Expected to know whose score {column!r} is, but labels are {one!r} and {other!r} in {where}. Say "
            f"--positive {other} or --positive {one}."
        )
    return (ordered[1 - chosen], ordered[chosen]), how


def _chosen(names: list[str], column: str, asked: str | None) -> tuple[int | None, str]:
    folded = [name.strip().lower() for name in names]
    called = class_of_column(column)
    called = None if called is None or whole(called) is not None else called  # p1 is the second class, not the one "1"
    for word, how in ((called, "by the column's name"), (asked, "as you said")):
        if word is not None and word.strip().lower() in folded:
            return folded.index(word.strip().lower()), how
    if all(whole(name) is not None for name in names):
        return 1, "the larger label"
    told = yes_of(tuple(names))
    return told, "by their names"
