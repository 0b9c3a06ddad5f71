"""How much a row counts: which column says so, and what it must hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, get_args

import numpy as np

from surefoot.errors import InputError
from surefoot.options import one_of
from surefoot.sources.labels import Array
from surefoot.sources.names import Split, is_weight, model_and_split

Counting = Literal["importance", "counts"]
COUNTINGS: tuple[Counting, ...] = get_args(Counting)
_PLAIN = {"weight", "weights", "sample_weight", "sample_weights"}
# Beside a weight of 1.8e19, which is −1 without a sign, all others would vanish; squares of tiny ones would.
LEAST, MOST = 1e-12, 1e12
_SHOWN = 5  # rows that are named; the others are counted


def check_counting(text: str, where: str) -> Counting:
    """Read what weights are, as somebody typed it.

    Args:
        text: One of ``COUNTINGS``.
        where: Who says so, for messages.

    Returns:
        ``importance``: how much a row represents; ``counts``: for how many independent rows it stands.

    Raises:
        InputError: If there is no such thing.
    """
    return one_of(text, COUNTINGS, where)


def pick_weights(
    names: Iterable[str], said: str | bool | None, used: Collection[str], what: str, split: Split = ""
) -> tuple[str | None, tuple[str, ...]]:
    """Choose the weights: as told, or the only column that is called so.

    Args:
        names: All columns or arrays that could be weights.
        said: Which one; False where rows are to count alike; None where nobody said.
        used: Those that are used for something else.
        what: Column or array, for messages.
        split: Of which split the rows are: ``test_weights`` are for those of the test split.

    Returns:
        The weights' name, None where rows count alike; and what a reader must know.

    Example:
        >>> pick_weights(["id", "weight"], None, (), "Column")[0], pick_weights(["count"], None, (), "Column")[0]
        ('weight', None)
    """
    if said is False:
        return None, ()
    if isinstance(said, str):
        return said, ()
    called = [name for name in names if is_weight(name) and name not in used]
    parts = {name: model_and_split(_words(name)) for name in called}
    own = [name for name, part in parts.items() if part[0] in _PLAIN and part[1] == split]
    plain = own or [name for name, part in parts.items() if part[0] in _PLAIN and not part[1]]
    chosen = plain[0] if len(plain) == 1 else None
    others = [name for name, part in parts.items() if part[1] in ("", split) and name != chosen]
    notes = [f"{what} {name!r} was not used: {_ask(name)}" for name in others]
    if chosen is not None:
        notes.insert(0, f"{what} {chosen!r} says how much each row counts; with --no-weights all count alike.")
    return chosen, tuple(notes)


def _words(name: str) -> str:
    return re.sub(r"[^a-z]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()).strip()


def _ask(name: str) -> str:
    counts = "" if "weight" in name.lower() or name.lower() == "wt" else " --weights-are counts"
    return f"every row counts once. Say --weights {name}{counts} if it says how much a row counts, or --no-weights."


class StrangeWeights:
    """Counts weights that cannot be any.

    Args:
        counting: Counts must be whole numbers.
    """

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self._n = self._count = 0
        self._found: list[str] = []

    def add(self, weights: Array) -> None:
        """Look at the next rows."""
        off = _off(weights, self._counting)
        rows = np.flatnonzero(off)[: _SHOWN - len(self._found)]
        self._found += [f"row {self._n + row} has {weights[row]:g}" for row in rows]
        self._n, self._count = self._n + len(weights), self._count + int(off.sum())

    def error(self, name: str, where: str) -> InputError:
        """Make the error that says what was found."""
        counts = f"whole numbers from 0 to {MOST:g}, how many rows each stands for,"
        wanted = counts if self._counting == "counts" else f"0 or from {LEAST:g} to {MOST:g}"
        these = f"{self._count:,} of {self._n:,} rows have others: " if self._count > 1 else ""
        more = ", …" if self._count > len(self._found) else ""
        do = "Say --weights-are importance, or correct them" if self._counting == "counts" else "Correct them"
        return InputError(
            f"Expected weights {name!r} to be {wanted} in every row, but {these}{', '.join(self._found)}{more} in "
            f"{where}. {do}, or say --no-weights."
        )


def _off(weights: Array, counting: Counting) -> Array:
    off: Array = (weights != 0) & ((weights < LEAST) | (weights > MOST))
    return off | (weights != np.floor(weights)) if counting == "counts" else off


def are_valid(weights: Array, counting: Counting) -> bool:
    """Return whether finite weights are such that rows can be counted by them."""
    return not bool(_off(weights, counting).any())


def as_weights(name: str | None) -> str:
    """Say what was taken for weights; nothing where rows count alike."""
    return f", {name!r} as weights" if name else ""


def no_weight_at_all(name: str, where: str) -> InputError:
    """Make the error for weights that leave no row."""
    return InputError(
        f"Expected a weight above 0 in some row, but {name!r} is 0 in all of them in {where}. Correct it, or say "
        "--no-weights."
    )
