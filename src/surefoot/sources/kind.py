"""Logits or probabilities: told by name and values, and refused where both could be."""

from __future__ import annotations

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._values import rounding
from surefoot.sources.labels import Array
from surefoot.sources.names import Kind
from surefoot.sources.source import SUM_TOLERANCE

_MANY = 20  # rows; what fewer have in common may be chance
_HIGH = 20.0  # as a logit that is a certainty of 1 − 2e-9, and few are so sure everywhere
MULTI_LABEL = (
    "If rows can have several true classes, this is a multi-label table: audit every class on its own, its scores as "
    "'prob' and 1 or 0 as 'label'."
)


def tell_kind(scores: Array, named: Kind | None, where: str) -> tuple[Kind, str]:
    """Tell logits from probabilities by name and values, or refuse.

    Args:
        scores: The first rows, shape ``(n, classes)`` or ``(n,)``; finite.
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
    if scores.ndim == 1:
        return _tell_flat(scores, named, where)
    sums = scores.sum(axis=1, dtype=np.float64)
    low, high = float(scores.min()), float(scores.max())
    sum_to_one = low >= 0 and bool((np.abs(sums - 1) <= SUM_TOLERANCE).all())
    if named == "logits" and sum_to_one:
        raise InputError(
            f"Expected logits, as they are called, but all rows sum to 1 like probabilities in {where}. "
            "Say --logits or --probs."
        )
    total = _common_sum(sums, scores.shape[1]) if low >= 0 and high > 1 else None
    if total == 100 or (total and named != "logits"):
        like, do = ("percent", "Say --percent") if total == 100 else ("counts", f"Divide them by {total:.6g}")
        raise InputError(
            f"Expected {f'{named}, as they are called' if named else 'logits or probabilities'}, but all rows sum to "
            f"{total:.6g} and no score is negative, like {like}, in {where}. {do}, or say --logits if these are logits."
        )
    if named is not None:
        return named, "by name"
    if sum_to_one:
        return "probs", "by their values"
    if low >= 0 and high > _HIGH:
        raise InputError(
            f"Expected logits or probabilities, but cannot tell: the scores lie between {low:.4g} and {high:.4g}, none "
            f"is negative, and row 0 sums to {sums[0]:.4g} in {where}. Save probabilities that sum to 1, or say "
            f"--logits if these are logits. {MULTI_LABEL}"
        )
    if low < 0 or high > 1:
        return "logits", "by their values"
    row = int((np.abs(sums - 1) > SUM_TOLERANCE).argmax())
    raise InputError(
        f"Expected logits or probabilities, but cannot tell: all values are in [0, 1], and row {row} sums to "
        f"{sums[row]:.4g} in {where}. {MULTI_LABEL} If each row has one, bring its scores to a sum of 1, or say "
        "--logits if these are logits."
    )


def _common_sum(sums: Array, n_classes: int) -> float | None:
    """Return what all rows sum to where that is no chance: 100, or another number in many rows."""
    if bool((np.abs(sums - 100) <= rounding(n_classes)).all()):
        return 100.0
    same = np.ptp(sums) <= SUM_TOLERANCE * abs(sums[0])
    return float(sums[0]) if same and len(sums) >= _MANY and abs(sums[0] - 1) > SUM_TOLERANCE else None


def _tell_flat(scores: Array, named: Kind | None, where: str) -> tuple[Kind, str]:
    """Tell what one score per row is, for two classes."""
    low, high = float(scores.min()), float(scores.max())
    if named is None and bool((scores == np.floor(scores)).all()):
        raise InputError(
            f"Expected the probability of class 1 or its logit, but all scores are whole numbers, like predicted "
            f"classes, in {where}. Give the probabilities, or say --probs or --logits if they are scores."
        )
    if low >= 0 and high <= 1:
        if named == "logits" and len(scores) >= _MANY:
            raise InputError(
                f"Expected logits, as they are called, but all of them are in [0, 1] like probabilities in {where}. "
                "Say --logits or --probs."
            )
        return named or "probs", "by name" if named else "by their values"
    if named == "logits" or (named is None and low < 0):
        return "logits", "by name" if named else "by their values"
    if low >= 0:
        like = " like percent" if high <= 100 else ""
        percent = "--percent if they are percent, or " if high <= 100 else ""
        raise InputError(
            f"Expected {'probabilities in [0, 1]' if named else 'a probability or a logit per row'}, but the scores "
            f"lie between {low:.4g} and {high:.4g}{like} in {where}. Say {percent}--logits if they are logits."
        )
    raise InputError(
        f"Expected probabilities in [0, 1], as they are called, but the scores lie between {low:.4g} and {high:.4g} in "
        f"{where}. Say --logits if they are logits."
    )


def no_probabilities(row: int, scores: Array, where: str) -> InputError:
    """Make the error for a row that was to hold probabilities and does not.

    Args:
        row: Its number.
        scores: Its scores.
        where: The file, for messages.

    Returns:
        What was seen, and what to do.
    """
    total, low, high = float(scores.sum()), float(scores.min()), float(scores.max())
    if low < 0:
        do = "Say --logits if these are logits."
    elif high <= 1:
        do = f"Bring each row to a sum of 1 if it has one true class. {MULTI_LABEL}"
    elif abs(total - 100) <= rounding(len(scores)):
        do = "Say --percent if they are percent."
    else:
        do = "Say --percent if they are percent, or --logits if these are logits."
    negative = f" and holds {low:.4g}" if low < 0 else ""
    return InputError(
        f"Expected probabilities that are not negative and sum to 1, but row {row} sums to {total:.6g}{negative} in "
        f"{where}. {do}"
    )
