"""What the labels of a data set mean: classes 0…K−1, each of which can be learned. Nothing here is guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from surefoot.data._divide import Array
from surefoot.errors import InputError
from surefoot.schema import SplitName

HOW = (
    "Number the classes from 0, or write renumber=true after npz:PATH to take the values that are there as the classes."
)


def read_labels(raw: Any, where: str) -> Array:
    """Read labels as whole numbers.

    Args:
        raw: One per example; truth values count as 0 and 1.
        where: For error messages.

    Returns:
        The labels as int64.

    Raises:
        InputError: If they are something else.
    """
    labels = np.atleast_1d(np.asarray(raw).squeeze())
    whole = labels.dtype.kind in "iub" or (labels.dtype.kind == "f" and np.array_equal(labels, np.floor(labels)))
    if not whole:
        raise InputError(f"Expected whole numbers as labels, but got {labels.dtype} in {where}. {HOW}")
    return labels.astype(np.int64)


def renumbered(raw: Mapping[SplitName, Any], origin: str) -> tuple[dict[SplitName, Array], tuple[str, ...]]:
    """Take the values among the training labels, in their order, as the classes.

    Args:
        raw: Labels of the published parts: numbers or words.
        origin: For error messages.

    Returns:
        The labels as 0…K−1, and what the classes are called.

    Raises:
        InputError: If another part has a class of its own.

    Example:
        >>> labels, names = renumbered({"train": [1, 2, 5], "test": [5, 1]}, "x")
        >>> labels["test"].tolist(), names
        ([2, 0], ('1', '2', '5'))
    """
    found = {part: np.atleast_1d(np.asarray(labels).squeeze()) for part, labels in raw.items()}
    classes = np.unique(found["train"])
    numbers: dict[SplitName, Array] = {}
    for part, labels in found.items():
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise InputError(
                f"Expected the classes of the training labels, {_listed(classes)}, but got {_listed(unknown)} in "
                f"{origin}, {part} split. Name the classes in all splits alike."
            )
        numbers[part] = np.searchsorted(classes, labels).astype(np.int64)
    return numbers, tuple(f"{value:g}" if classes.dtype.kind == "f" else str(value) for value in classes)


def count_classes(labels: Mapping[SplitName, Array], origin: str) -> int:
    """Count the classes of labels that come without names: all of 0…K−1 must be among the training labels.

    Args:
        labels: Of the published parts, before any are left out.
        origin: For error messages.

    Returns:
        K.

    Raises:
        InputError: If they are numbered in another way, or differently in another part.

    Example:
        >>> count_classes({"train": np.array([0, 2, 1]), "test": np.array([1, 2])}, "x")
        3
    """
    train = np.unique(labels["train"])
    if not len(train):
        raise InputError(f"Expected at least one example, but got an empty {origin}, train split. Give it some.")
    if train[0] > 0:
        others = [f"those of the {part} split at {labels[part].min()}" for part in labels if part != "train"]
        raise InputError(
            f"Expected classes numbered from 0, but the training labels of {origin} begin at {train[0]} "
            f"({', '.join(others)}): {_listed(train)}. {HOW}"
        )
    n_classes = int(train[-1]) + 1
    missing = n_classes - len(train)
    if train[0] == 0 and missing:
        raise InputError(
            f"Expected every class 0…{n_classes - 1} among the training labels of {origin}, but {missing} of them have "
            f"no example: there are {_listed(train)}. {HOW}"
        )
    return n_classes


def check_labels(labels: Array, n_classes: int, where: str) -> None:
    """Refuse labels that are no class."""
    if labels.min() < 0 or labels.max() >= n_classes:
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise InputError(f"Expected labels in 0…{n_classes - 1}, but got {worst} in {where}. {HOW}")


def check_some_choice(labels: Array, names: Sequence[str], where: str) -> None:
    """Refuse a training split of one class, before anything is trained."""
    if len(np.unique(labels)) < 2:
        raise InputError(
            f"Expected at least two classes to tell apart, but all {len(labels)} labels are {names[labels[0]]!r} in "
            f"{where}. Add examples of another class."
        )


def _listed(values: Array, most: int = 6) -> str:
    """Name values: all of a few, the two ends of many."""
    words = [str(value) for value in values.tolist()]
    whole = values.dtype.kind in "iu" and len(values) > 2 and int(values[-1]) - int(values[0]) == len(values) - 1
    if whole:
        return f"{words[0]}…{words[-1]}"
    return ", ".join(words) if len(words) <= most else f"{', '.join(words[: most - 2])}, …, {words[-1]}"
