"""What labels mean, numbers of classes or their names: one rule, decided for the whole column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from surefoot.errors import InputError
from surefoot.options import one_of

Array = np.ndarray[Any, Any]
Meaning = Literal["from-0", "from-1", "names"]
MEANINGS: tuple[Meaning, ...] = get_args(Meaning)
MISSING = frozenset({"", "nan", "na", "n/a", "none", "null", "nil", "-", "?", "."})  # as tables write "no value"


def check_meaning(text: str, where: str) -> Meaning:
    """Read a meaning that somebody typed or a file holds.

    Args:
        text: One of ``MEANINGS``.
        where: Who says so, for messages.

    Returns:
        The meaning.

    Raises:
        InputError: If there is no such meaning.
    """
    return one_of(text, MEANINGS, where)


def whole(text: str) -> int | None:
    """Read a whole number, also if it is written as 3.0; None if it is none.

    Example:
        >>> whole("3.0"), whole("03"), whole("3.5"), whole("cat")
        (3, 3, None, None)
    """
    try:
        number = float(text)
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None


def one_per_row(labels: Array, shape: tuple[int, ...], where: str) -> tuple[Array, bool]:
    """Bring labels into a flat array of numbers or texts.

    Args:
        labels: Shape ``(n,)`` or ``(n, 1)``; or one-hot, shape ``(n, classes)``.
        shape: Of the scores.
        where: The file, for messages.

    Returns:
        The labels, and whether they were one-hot.

    Raises:
        InputError: If rows have several true classes, or labels are neither numbers nor texts.
    """
    if labels.ndim == 2 and labels.shape[1] != 1:
        return _from_one_hot(labels, shape, where), True
    labels = labels[:, 0] if labels.ndim == 2 else labels
    if labels.ndim != 1 or len(labels) != shape[0]:
        raise InputError(
            f"Expected scores (n, classes) and labels (n,), but got {shape} and {labels.shape} in {where}. "
            "Give one row of scores per label."
        )
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind not in "iubfU":
        raise InputError(
            f"Expected numbers or class names as labels, but got {labels.dtype} in {where}. Save plain arrays."
        )
    return labels, False


def _from_one_hot(labels: Array, shape: tuple[int, ...], where: str) -> Array:
    if labels.shape != shape or labels.dtype.kind not in "fiub":
        raise InputError(
            f"Expected one label per row, or one-hot rows as wide as the scores, but got labels {labels.shape} for "
            f"scores {shape} in {where}. Save one label per row."
        )
    hot = labels.sum(axis=1)
    if bool(np.isin(labels, (0, 1)).all()) and (hot != 1).any():
        raise several_classes(int((hot != 1).argmax()), f"{int(hot[(hot != 1).argmax()])}", where)
    if not np.isin(labels, (0, 1)).all():
        raise InputError(
            f"Expected one label per row, or one-hot rows of 0 and 1, but the labels are shares between classes in "
            f"{where}. Save labels.argmax(1) if the largest share is the true class."
        )
    numbers: Array = labels.argmax(axis=1)
    return numbers


def several_classes(row: int, count: str, where: str) -> InputError:
    """Make the error for a multi-label table, which has no confidence in one class."""
    return InputError(
        f"Expected one true class per row, but row {row} has {count} in {where}: a multi-label table. Audit every "
        "class on its own: its scores as 'prob' and 1 or 0 as 'label'."
    )


def missing_labels(labels: Array, class_names: Sequence[str]) -> Array:
    """Mark labels that are no value at all."""
    if labels.dtype.kind == "f":
        nothing: Array = ~np.isfinite(labels)
        return nothing
    if labels.dtype.kind != "U":
        return np.zeros(len(labels), bool)
    texts, places = np.unique(labels, return_inverse=True)
    known = {name.strip() for name in class_names}
    gone = [str(text).strip().lower() in MISSING and str(text).strip() not in known for text in texts]
    return np.array(gone, bool)[places]


def texts_of(labels: Array) -> list[str]:
    """List the different labels as texts, whole numbers without a decimal point."""
    return list(dict.fromkeys(text_of(each) for each in np.unique(labels)))


def text_of(label: Any) -> str:
    """Write one label as text.

    Example:
        >>> text_of(2.0), text_of(True), text_of(" cat ")
        ('2', '1', 'cat')
    """
    if isinstance(label, str):
        return label.strip()
    number = float(label)
    return str(int(number)) if np.isfinite(number) and number == np.floor(number) else str(number)


class Places:
    """Looks labels up among the names of the classes; numbers also if they are written otherwise, as 1.0 or 01."""

    def __init__(self, class_names: Sequence[str]) -> None:
        self._exact = {name.strip(): place for place, name in enumerate(class_names)}
        numbers = [whole(name) for name in class_names]
        once = Counter(numbers)
        self._numbers = {n: i for i, n in enumerate(numbers) if n is not None and once[n] == 1}

    def find(self, text: str) -> int | None:
        """Return the class that is called so."""
        if text in self._exact:
            return self._exact[text]
        number = whole(text)
        return None if number is None else self._numbers.get(number)

    @property
    def any_number(self) -> bool:
        """Whether a class is called by a number."""
        return bool(self._numbers)

    @property
    def counts_from_0(self) -> bool:
        """Whether every class is called by its own number, so that both readings are one."""
        return bool(self._exact) and self._numbers == {i: i for i in range(len(self._exact))}


def possible(texts: Iterable[str], n_classes: int, class_names: Sequence[str]) -> tuple[Meaning, ...]:
    """Return which readings all labels of a column allow; two that give the same classes count as one.

    Args:
        texts: The different labels.
        n_classes: How many classes there are.
        class_names: What they are called; empty if they have no names.

    Returns:
        None, one or two meanings.

    Example:
        >>> possible(["0", "1", "2"], 3, ["1", "2", "3"]), possible(["1", "2"], 3, ["1", "2", "3"])
        (('from-0',), ('from-0', 'names'))
    """
    texts, places = list(texts), Places(class_names)
    numbers = [whole(text) for text in texts]
    by_name = [places.find(text) for text in texts] if class_names else [None for _ in texts]
    in_range = all(number is not None and 0 <= number < n_classes for number in numbers)
    if in_range and (numbers == by_name or None in by_name):
        return ("from-0",)
    if in_range:
        return ("from-0", "names")
    return () if None in by_name else ("names",)


def as_numbers(labels: Array, meaning: Meaning, n_classes: int, class_names: Sequence[str]) -> tuple[Array, Array]:
    """Turn labels into class numbers from 0.

    Args:
        labels: As :func:`one_per_row` gives them.
        meaning: What they mean.
        n_classes: How many classes there are.
        class_names: What they are called.

    Returns:
        The numbers as int64, and which of them are no class.
    """
    if labels.dtype.kind in "iub" and meaning != "names":
        found = labels.astype(np.int64)
    else:
        texts, places = np.unique(labels, return_inverse=True)
        known = Places(class_names)
        words = map(text_of, texts)
        each = [known.find(word) if meaning == "names" else whole(word) for word in words]
        # What is no class at all gets a number that none has, whatever labels are counted from.
        found = np.array([-(1 << 40) if n is None or abs(n) >= 1 << 40 else n for n in each], np.int64)[places]
    numbers = found - 1 if meaning == "from-1" else found
    return numbers, (numbers < 0) | (numbers >= n_classes)


def in_words(meaning: Meaning, n_classes: int) -> str:
    """Return how labels are read."""
    if meaning == "names":
        return "class names"
    first = 1 if meaning == "from-1" else 0
    return f"class numbers {first}…{n_classes - 1 + first}"


def true_or_not(labels: Array, shape: tuple[int, ...], start: int, where: str) -> Array:
    """Check that every label is 1 or 0.

    Args:
        labels: Some rows.
        shape: Of their scores.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        The same as float64.

    Raises:
        InputError: If one is something else.
    """
    if labels.shape != shape:
        raise InputError(
            f"Expected as many labels as scores in every row, but got {labels.shape} for {shape} in {where}. Save a "
            "matrix of 1 and 0."
        )
    off = ~np.isin(labels, (0, 1)).all(axis=1)
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"Expected 1 or 0 for every label, but row {start + row} has {labels[row].tolist()[:8]} in {where}. "
            "Leave it out, or correct it."
        )
    return labels.astype(np.float64)
