"""Rows of a predictions file, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.audit._names import Kind
from surefoot.errors import InputError

Array = np.ndarray[Any, Any]
ROWS_AT_ONCE = 1 << 19  # values, that is rows × classes, per chunk


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows: scores (n, classes), labels (n,) and one array per group column."""

    scores: Array
    labels: Array
    groups: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """One model's predictions in a file, to be read as often as need be without ever holding all of them.

    Attributes:
        name: Of the model or split within the file; may be empty.
        took: What was taken for what, for people.
        kind: Logits or probabilities; None until the values have told.
        class_names: One per class; empty if the file has none.
        chunks: Starts reading from the first row.
    """

    name: str
    took: str
    kind: Kind | None
    class_names: tuple[str, ...]
    chunks: Callable[[], Iterator[Chunk]]


def rows_per_chunk(n_classes: int) -> int:
    """Say how many rows to read at once."""
    return max(1, ROWS_AT_ONCE // max(1, n_classes))


def clean(scores: Array, labels: Array, start: int, class_names: tuple[str, ...], where: str) -> tuple[Array, Array]:
    """Refuse rows that no prediction can have.

    Args:
        scores: Shape ``(n, classes)``.
        labels: Shape ``(n,)``, class numbers or class names.
        start: Number of the first row, for messages.
        class_names: To look labels up that are names.
        where: The file, for messages.

    Returns:
        Scores as floats and labels as int64.

    Raises:
        InputError: If something is missing, not finite or outside the classes.
    """
    if scores.ndim != 2 or labels.ndim != 1 or len(scores) != len(labels):
        raise InputError(
            f"Expected scores (n, classes) and labels (n,), but got {scores.shape} and {labels.shape} in {where}. "
            "Give one row of scores per label."
        )
    if scores.dtype.kind not in "fiu":
        raise InputError(f"Expected numbers as scores, but got {scores.dtype} in {where}. Save plain arrays.")
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if scores.shape[1] < 2:
        raise InputError(
            f"Expected at least two classes, but got {scores.shape[1]} in {where}. Give a column per class."
        )
    if not np.isfinite(scores.sum(dtype=np.float64)):  # one pass; then look for the row
        bad = ~np.isfinite(scores).all(axis=1)
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"Expected finite scores, but row {start + row} holds NaN or infinity in {where}. Leave it out."
            )
    return scores, _numbers(labels, scores.shape[1], start, class_names, where)


def _numbers(labels: Array, n_classes: int, start: int, class_names: tuple[str, ...], where: str) -> Array:
    if labels.dtype.kind in "US":
        known = {name: index for index, name in enumerate(class_names)}
        texts = [str(label).strip() for label in labels]
        numbers = [known.get(text, _whole(text)) for text in texts]
        if None in numbers:
            row = numbers.index(None)
            shown = ", ".join(class_names[:6]) or f"0…{n_classes - 1}"
            raise InputError(f"Expected labels among {shown}, but row {start + row} has {texts[row]!r} in {where}.")
        labels = np.array(numbers, np.int64)
    elif labels.dtype.kind == "f":
        if not np.array_equal(labels, np.floor(labels)):
            raise InputError(
                f"Expected whole numbers as labels, but got fractions or NaN in {where}. Number the classes from 0."
            )
    elif labels.dtype.kind not in "iub":
        raise InputError(f"Expected numbers or class names as labels, but got {labels.dtype} in {where}.")
    labels = labels.astype(np.int64)
    off = (labels < 0) | (labels >= n_classes)
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, but row {start + row} has {labels[row]} in {where}. "
            "Number the classes from 0."
        )
    return labels


def _whole(text: str) -> int | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number == int(number) else None


def tell_kind(scores: Array, where: str) -> Kind:
    """Tell logits from probabilities by their values, or refuse.

    Args:
        scores: The first rows.
        where: The file, for messages.

    Returns:
        ``"probs"`` if all rows are non-negative and sum to one, ``"logits"`` if some value cannot be a probability.

    Raises:
        InputError: If all values could be probabilities but rows do not sum to one.
    """
    values = scores.astype(np.float64, copy=False)
    sums = values.sum(axis=1)
    if values.min() >= 0 and bool((np.abs(sums - 1) <= 1e-3).all()):
        return "probs"
    if values.min() < 0 or values.max() > 1:
        return "logits"
    row = int((np.abs(sums - 1) > 1e-3).argmax())
    raise InputError(
        f"Expected logits or probabilities, but cannot tell: all values are in [0, 1], and row {row} sums to "
        f"{sums[row]:.4g} in {where}. Say --logits or --probs."
    )
