"""Rows of a predictions file, some at a time, and what every one of them must be."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from surefoot.audit._names import Kind, Split
from surefoot.errors import InputError

Array = np.ndarray[Any, Any]
VALUES_AT_ONCE = 1 << 18  # rows × classes per chunk: a few megabytes, whatever the file's size
SUM_TOLERANCE = 1e-3  # a softmax in half precision is off by almost this much


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows: scores (n, classes), labels (n,) and one array per group column."""

    scores: Array
    labels: Array
    groups: Mapping[str, Array] = field(default_factory=dict)
    share: float | None = None
    """How much of the file has been read after this chunk, in [0, 1]."""


@dataclass(frozen=True)
class Source:
    """One model's predictions in a file, to be read as often as need be without ever holding all of them.

    Attributes:
        model: Its name within the file; empty where there is one.
        split: Of which split the rows are; empty where the file does not say.
        took: What was taken for what, for people.
        kind: Logits or probabilities; None until the values have told.
        class_names: One per class; empty if the file has none.
        start: Starts reading from the first row, given the kind.
        columns: What the scores' columns, or their array, and the labels are called.
    """

    model: str
    split: Split
    took: str
    kind: Kind | None
    class_names: tuple[str, ...]
    start: Callable[[Kind | None], Generator[Chunk]]
    columns: tuple[tuple[str, ...], str] = ((), "")

    @property
    def name(self) -> str:
        """Model and split in words; empty where the file names neither."""
        return ", ".join(word for word in (self.model, self.split) if word)

    def chunks(self) -> Generator[Chunk]:
        """Read all rows, some at a time."""
        return self.start(self.kind)

    def first(self) -> Chunk | None:
        """Read the first rows only."""
        with closing(self.chunks()) as chunks:
            return next(chunks, None)


def rows_per_chunk(n_classes: int) -> int:
    """Say how many rows to read at once."""
    return max(1, VALUES_AT_ONCE // max(1, n_classes))


def clean(
    scores: Array, labels: Array, kind: Kind | None, start: int, class_names: tuple[str, ...], where: str
) -> tuple[Array, Array]:
    """Bring rows into one form and refuse those that no prediction can have.

    Args:
        scores: Shape ``(n, classes)``, or ``(n,)`` for two classes: the probability of class 1, or its logit.
        labels: Shape ``(n,)``, class numbers or class names; or one-hot, shape ``(n, classes)``.
        kind: What the scores are, where it is known.
        start: Number of the first row, for messages.
        class_names: To look labels up that are names.
        where: The file, for messages.

    Returns:
        Scores as float32 or float64, shape ``(n, classes)``, and labels as int64.

    Raises:
        InputError: If something is missing, not finite or outside the classes.
    """
    if scores.dtype.kind not in "fiu":
        raise InputError(f"Expected numbers as scores, but got {scores.dtype} in {where}. Save plain arrays.")
    wanted = np.float32 if scores.dtype.kind == "f" and scores.dtype.itemsize <= 4 else np.float64
    scores = scores.astype(wanted, copy=False)
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores) if kind == "logits" else 1 - scores, scores], axis=1)
    if labels.ndim == 2:
        labels = _from_one_hot(labels, scores.shape, where)
    if scores.ndim != 2 or labels.ndim != 1 or len(scores) != len(labels):
        raise InputError(
            f"Expected scores (n, classes) and labels (n,), but got {scores.shape} and {labels.shape} in {where}. "
            "Give one row of scores per label."
        )
    if scores.shape[1] < 2:
        raise InputError(
            f"Expected at least two classes, but the scores are {scores.shape} in {where}. Give a column per class, or "
            "for two classes a flat array with the probability of class 1."
        )
    if not np.isfinite(scores.sum(dtype=np.float64)):  # one pass; then look for the row
        bad = ~np.isfinite(scores).all(axis=1)
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"Expected finite scores, but row {start + row} holds NaN or infinity in {where}. Leave it out."
            )
    return scores, _numbers(labels, scores.shape[1], start, class_names, where)


def _from_one_hot(labels: Array, shape: tuple[int, ...], where: str) -> Array:
    if labels.shape[1] == 1:
        return labels[:, 0]
    is_hot = labels.shape == shape and labels.dtype.kind in "fiub" and bool(np.isin(labels, (0, 1)).all())
    if not is_hot or not bool((labels.sum(axis=1) == 1).all()):
        raise InputError(
            f"Expected one label per row, or one-hot rows as wide as the scores, but got labels {labels.shape} for "
            f"scores {shape} in {where}. Save labels.argmax(1)."
        )
    numbers: Array = labels.argmax(axis=1)
    return numbers


def _numbers(labels: Array, n_classes: int, start: int, class_names: tuple[str, ...], where: str) -> Array:
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    if labels.dtype.kind == "U" or (labels.dtype.kind in "iu" and _are_numbers(class_names)):
        labels = _by_name(labels, n_classes, start, class_names, where)
    elif labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.floor(labels))
        if not whole.all():
            row = int((~whole).argmax())
            raise InputError(
                f"Expected whole numbers as labels, but row {start + row} has {labels[row]} in {where}. Number the "
                "classes from 0."
            )
    elif labels.dtype.kind not in "iub":
        raise InputError(f"Expected numbers or class names as labels, but got {labels.dtype} in {where}.")
    numbers = labels.astype(np.int64)
    off = (numbers < 0) | (numbers >= n_classes)
    if off.any():
        row = int(off.argmax())
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, but row {start + row} has {numbers[row]} in {where}. "
            "Number the classes from 0."
        )
    return numbers


def _are_numbers(class_names: tuple[str, ...]) -> bool:
    """Say whether classes are called by numbers, such as 1…10, which labels then mean."""
    return bool(class_names) and all(name.isdecimal() for name in class_names)


def _by_name(labels: Array, n_classes: int, start: int, class_names: tuple[str, ...], where: str) -> Array:
    known = {name: index for index, name in enumerate(class_names)}
    texts, places = np.unique(labels, return_inverse=True)
    stripped = [str(text).strip() for text in texts]
    numbers = [known.get(text, _whole(text)) for text in stripped]
    if None in numbers:
        wrong = numbers.index(None)
        row = int((places == wrong).argmax())
        shown = ", ".join(class_names[:6]) + ("…" if len(class_names) > 6 else "") or f"0…{n_classes - 1}"
        raise InputError(
            f"Expected labels among {shown}, but row {start + row} has {stripped[wrong]!r} in {where}. "
            "Use the names of the classes, or their numbers."
        )
    return np.array(numbers, np.int64)[places]


def _whole(text: str) -> int | None:
    try:
        number = float(text)
        return int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None


def tell_kind(scores: Array, named: Kind | None, where: str) -> tuple[Kind, str]:
    """Tell logits from probabilities by name and values, or refuse.

    Args:
        scores: The first rows.
        named: What their name says.
        where: The file, for messages.

    Returns:
        The kind, and how it was told.

    Raises:
        InputError: If name and values contradict each other, or neither tells.

    Example:
        >>> tell_kind(np.array([[0.25, 0.75]]), None, "a.npz"), tell_kind(np.array([[-1.0, 2.0]]), None, "a.npz")
        (('probs', 'by their values'), ('logits', 'by their values'))
    """
    sums = scores.sum(axis=1, dtype=np.float64)
    low, high = float(scores.min()), float(scores.max())
    sum_to_one = low >= 0 and bool((np.abs(sums - 1) <= SUM_TOLERANCE).all())
    if named == "logits" and sum_to_one:
        raise InputError(
            f"Expected logits, as they are called, but all rows sum to 1 like probabilities in {where}. "
            "Say --logits or --probs."
        )
    if named is not None:
        return named, "by name"
    if sum_to_one:
        return "probs", "by their values"
    if low < 0 or high > 1:
        return "logits", "by their values"
    row = int((np.abs(sums - 1) > SUM_TOLERANCE).argmax())
    raise InputError(
        f"Expected logits or probabilities, but cannot tell: all values are in [0, 1], and row {row} sums to "
        f"{sums[row]:.4g} in {where}. Say --logits or --probs."
    )
