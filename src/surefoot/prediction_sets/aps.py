"""The score of adaptive prediction sets: the probability of all that is likelier than a class."""

from __future__ import annotations

import numpy as np

from surefoot.prediction_sets._draws import Array
from surefoot.registry import SETS


@SETS.register("aps", reference="Romano, Sesia and Candès 2020", choose=None)
def aps(probs: Array, draws: Array, *, randomised: bool = True) -> Array:
    """Likely classes until their sum is large enough: larger sets where the model is unsure.

    The score of a class is the sum of the probabilities above it and, of its own, the part that was drawn. Of equal
    probabilities the lower class number comes first.

    Args:
        probs: Shape ``(n, classes)``.
        draws: One number in [0, 1) per row.
        randomised: Else nothing of its own probability counts: no chance and no empty sets, but more coverage than
            asked for where the likeliest class alone is right often enough.

    Returns:
        Scores of all classes, shape ``(n, classes)``.

    Example:
        >>> aps(np.array([[0.25, 0.5, 0.25]]), np.array([0.5]))
        array([[0.625, 0.25 , 0.875]])
        >>> aps(np.array([[0.25, 0.5, 0.25]]), np.array([0.5]), randomised=False)
        array([[0.5 , 0.  , 0.75]])
    """
    order, scores = in_order(probs, draws, randomised)
    return back(order, scores)


def in_order(probs: Array, draws: Array, randomised: bool) -> tuple[Array, Array]:
    """Sort classes from the likeliest down, and return their order and their scores in it."""
    order = np.argsort(-probs, axis=1, kind="stable")
    ordered = np.take_along_axis(probs, order, axis=1)
    above = np.cumsum(ordered, axis=1)[:, :-1]
    above = np.concatenate([np.zeros((len(probs), 1)), above], axis=1)
    return order, above + ordered * (draws[:, None] if randomised else 0.0)


def back(order: Array, scores: Array) -> Array:
    """Put scores back where their classes stand."""
    found = np.empty_like(scores)
    np.put_along_axis(found, order, scores, axis=1)
    return found
