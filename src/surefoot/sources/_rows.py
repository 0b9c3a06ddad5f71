"""Rows that cannot be used, counted over the whole file: one error says how many, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from surefoot.errors import InputError
from surefoot.sources.labels import Array, Meaning, as_numbers, in_words, text_of, texts_of, whole

_SHOWN = 5  # rows, columns or values that are named; the others are counted


class Gaps:
    """Counts rows in which a score, the label or the weight is missing, NaN or infinite."""

    def __init__(self) -> None:
        self._n = self._count = 0
        self._rows: list[int] = []
        self._columns: dict[str, int] = {}

    def add(self, bad: Array, names: Sequence[str], others: Mapping[str, Array]) -> None:
        """Look at the next rows.

        Args:
            bad: Where scores are no finite numbers, shape ``(n,)`` or ``(n, classes)``.
            names: What their columns are called, or their array.
            others: Which rows have no label, and no weight, by what these are called.
        """
        by_class = bad.reshape(len(bad), -1)
        off = np.any([by_class.any(axis=1), *others.values()], axis=0)
        self._rows += (self._n + np.flatnonzero(off)[: _SHOWN - len(self._rows)]).tolist()
        self._n, self._count = self._n + len(off), self._count + int(off.sum())
        called = names if len(names) == by_class.shape[1] else [f"{names[0]}[{k}]" for k in range(by_class.shape[1])]
        if not any(names):  # a file of its own holds them, and no name
            called = [f"column {k}" for k in range(by_class.shape[1])]
        for k in np.flatnonzero(by_class.any(axis=0)).tolist():
            self._columns[called[k]] = self._columns.get(called[k], 0) + int(by_class[:, k].sum())
        for name, missing in others.items():
            if missing.any():
                self._columns[name] = self._columns.get(name, 0) + int(missing.sum())

    def merge(self, other: Gaps) -> None:
        """Add what was seen in the rows that follow."""
        self._rows += [self._n + row for row in other._rows[: _SHOWN - len(self._rows)]]
        self._n, self._count = self._n + other._n, self._count + other._count
        for name, count in other._columns.items():
            self._columns[name] = self._columns.get(name, 0) + count

    def error(self, where: str) -> InputError:
        """Make the error that says what was found."""
        has = "has" if self._count == 1 else "have"
        these = "this row" if self._count == 1 else "these rows"
        return InputError(
            f"Expected a finite number in every score and a label in every row, but {self._count:,} of {self._n:,} "
            f"rows {has} a gap, NaN or infinity ({_list('row', self._rows, self._count)}; in {self._where()}) in "
            f"{where}. Leave {these} out with --skip-missing, or fill in what is missing."
        )

    def note(self) -> str:
        """Say how many rows were left out, and for which columns; nothing where none was."""
        if not self._count:
            return ""
        was = "row was" if self._count == 1 else "rows were"
        return (
            f"{self._count:,} of {self._n:,} {was} left out for a gap, NaN or infinity (in {self._where()}); rows are "
            "numbered without them."
        )

    @property
    def leaves_nothing(self) -> bool:
        """Whether every row has a gap."""
        return self._count == self._n

    def _where(self) -> str:
        return _few([f"{name!r} {count:,}×" for name, count in self._columns.items()])


class StrangeLabels:
    """Counts labels that are no class.

    Args:
        meaning: How labels are read.
        n_classes: How many classes there are.
        class_names: What they are called.
    """

    def __init__(self, meaning: Meaning, n_classes: int, class_names: Sequence[str]) -> None:
        self._meaning, self._n_classes, self._names = meaning, n_classes, tuple(class_names)
        self._n = self._count = 0
        self._found: list[str] = []
        self._all: set[str] = set()

    def add(self, labels: Array) -> None:
        """Look at the next rows."""
        _, off = as_numbers(labels, self._meaning, self._n_classes, self._names)
        for row in np.flatnonzero(off)[: 3 - len(self._found)]:
            text = text_of(labels[row])
            self._found.append(f"row {self._n + row} has {repr(text) if _is_word(text) else text}")
        self._n, self._count = self._n + len(off), self._count + int(off.sum())
        if len(self._all) <= self._n_classes + _SHOWN:
            self._all.update(texts_of(labels))

    def error(self, where: str) -> InputError:
        """Make the error that says what was found and how it could be read."""
        named = self._meaning == "names"
        shown = _few(list(self._names)) if named and self._names else f"0…{self._n_classes - 1}"
        shown = shown if self._meaning != "from-1" else f"1…{self._n_classes}"
        if self._count == 1:
            found = self._found[0]
        else:
            found = f"{self._count:,} of {self._n:,} rows have others: {_few(self._found, self._count)}"
        return InputError(f"Expected labels {'among' if named else 'in'} {shown}, but {found} in {where}. {self._do()}")

    def _do(self) -> str:
        from_1 = {str(number) for number in range(1, self._n_classes + 1)}
        if self._meaning == "from-0" and self._all <= from_1:
            return f"They count from 1: say --labels-are from-1 if they are {in_words('from-1', self._n_classes)}."
        if self._meaning == "names":
            return "Use the names of the classes, or their numbers, in the whole column."
        if any(map(_is_word, self._all)):
            return "Save what classes are called as class_names, or number the classes from 0."
        if found := sorted(self._all & {"255", "-100"}):
            return f"Say --ignore-index {found[0]} if rows with this label do not count."
        if any(text.startswith("-") for text in self._all):
            return "Leave rows without a class out, and number the classes from 0."
        return "Number the classes from 0, and give a score for each of them."


def _is_word(text: str) -> bool:
    return not text or (whole(text) is None and not text.replace(".", "").replace("-", "").isdigit())


def _list(what: str, rows: Sequence[int], count: int) -> str:
    return f"{what if count == 1 else what + 's'} {_few([str(row) for row in rows], count)}"


def _few(words: Sequence[str], count: int | None = None) -> str:
    more = (len(words) if count is None else count) > min(len(words), _SHOWN)
    return ", ".join(words[:_SHOWN]) + (", …" if more else "")
