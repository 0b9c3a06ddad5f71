"""Choices of their own in every row: lists of different lengths become rows whose absent places are −∞."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.sources.labels import Array

ABSENT = -np.inf


def padded(rows: Sequence[Sequence[float]], start: int, where: str) -> tuple[Array, Array]:
    """Bring lists of different lengths into one array.

    Args:
        rows: One list of numbers per row.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Shape ``(n, most)`` with −∞ behind the end of a shorter row, and how many choices each row has.

    Raises:
        InputError: If a row has fewer than two.

    Example:
        >>> padded([[1.0, 2.0, 3.0], [0.5, 0.25]], 0, "a.jsonl")[0]
        array([[1.  , 2.  , 3.  ],
               [0.5 , 0.25, -inf]])
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    if len(lengths) and lengths.min() < 2:
        row = int(lengths.argmin())
        raise InputError(
            f"Expected as many scores in every row, or two choices or more in each, but row {start + row} has "
            f"{lengths[row]} in {where}. Complete the short ones, or leave them out."
        )
    found = np.full((len(rows), int(lengths.max(initial=0))), ABSENT)
    for place, values in enumerate(rows):
        found[place, : len(values)] = values
    return found, lengths


def joined(parts: Sequence[Array]) -> Array:
    """Put parts below each other; narrower ones get absent choices at the end.

    Args:
        parts: Shape ``(n, any)`` or ``(n,)`` each.

    Returns:
        All rows.

    Example:
        >>> joined([np.array([[1.0]]), np.array([[2.0, 3.0]])])
        array([[  1., -inf],
               [  2.,   3.]])
    """
    if parts[0].ndim == 2 and len({part.shape[1] for part in parts}) > 1:
        most = max(part.shape[1] for part in parts)
        parts = [np.pad(part, ((0, 0), (0, most - part.shape[1])), constant_values=ABSENT) for part in parts]
    found: Array = np.concatenate(parts)
    return found


def counts_of(scores: Array) -> Array:
    """Count the choices of each row: all but those at the end that are −∞.

    Example:
        >>> counts_of(np.array([[1.0, -np.inf, 2.0], [1.0, 2.0, -np.inf]]))
        array([3, 2])
    """
    there = scores != ABSENT
    counts: Array = np.where(there.any(1), scores.shape[1] - there[:, ::-1].argmax(1), 0)
    return counts


def check_choices(scores: Array, kind: str | None) -> Array | None:
    """Say where numbers are missing, and turn absent choices into what their kind has for them.

    Args:
        scores: Shape ``(n, most)``; −∞ at the end of a row where it has fewer choices.
        kind: Of probabilities, an absent one is 0.

    Returns:
        The scores; None if one is missing among the choices of its row.
    """
    absent = np.arange(scores.shape[1]) >= counts_of(scores)[:, None]
    if not (np.isfinite(scores) | absent).all():
        return None
    return np.where(absent, 0, scores).astype(scores.dtype) if kind == "probs" else scores


def check_places(labels: Array, counts: Array, start: int, where: str) -> None:
    """Refuse labels that are no choice of their row.

    Args:
        labels: Numbers from 0.
        counts: How many choices each row has.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Raises:
        InputError: If one does not fit.
    """
    off = (labels < 0) | (labels >= counts)
    if not off.any():
        return
    row = int(off.argmax())
    raise InputError(
        f"Expected as label the place of the right choice, counted from 0, but row {start + row} has {labels[row]} of "
        f"{counts[row]} choices in {where}. Say --labels-are from-1 if they count from 1, or correct it."
    )


def choice_words(counts: Array, meaning: str) -> str:
    """Say what the labels of choices are.

    Args:
        counts: How many choices the first rows have.
        meaning: Places counted from 0 or from 1, or names of the columns.

    Returns:
        The words.

    Example:
        >>> choice_words(np.array([2, 5, 3]), "from-0"), choice_words(np.array([4, 4]), "names")
        ('places of the right one of 2 to 5 choices, from 0', 'names of the right one of 4 choices')
    """
    low, high = int(counts.min()), int(counts.max())
    choices = f"{low} choices" if low == high else f"{low} to {high} choices"
    if meaning == "names":
        return f"names of the right one of {choices}"
    return f"places of the right one of {choices}, from {1 if meaning == 'from-1' else 0}"


def is_ragged(values: Any) -> bool:
    """Return whether a column holds lists of different lengths.

    Example:
        >>> is_ragged([[1, 2], [3]]), is_ragged([[1, 2], [3, 4]]), is_ragged([1, 2])
        (True, False, False)
    """
    if isinstance(values, np.ndarray):
        return False
    return len({len(value) for value in values if isinstance(value, list | tuple)}) > 1


def with_possible_truth(logits: Array, labels: Array) -> Array:
    """Let the right choice have a very small probability where it has none, so that a fit has a finite NLL.

    Args:
        logits: Shape ``(n, most)``; −∞ where a choice is absent or has no probability.
        labels: Shape ``(n,)``.

    Returns:
        The same, with finite logits of the right choices.

    Example:
        >>> with_possible_truth(np.array([[1.0, -np.inf], [-np.inf, 2.0]]), np.array([0, 0])).round(1)
        array([[  1. ,  -inf],
               [-85.3,   2. ]])
    """
    rows = np.arange(len(labels))
    lost = np.isneginf(logits[rows, labels])
    found = logits.copy()
    found[rows[lost], labels[lost]] = logits[lost].max(1) + np.log(np.finfo(np.float32).tiny)
    return found
