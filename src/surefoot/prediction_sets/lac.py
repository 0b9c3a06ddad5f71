"""The score of the least ambiguous classifier: how unlikely a class is."""

from __future__ import annotations

from surefoot.prediction_sets._draws import Array
from surefoot.registry import SETS


@SETS.register("lac", reference="Sadinle, Lei and Wasserman 2019", choose=None)
def lac(probs: Array, draws: Array) -> Array:
    """Every class whose probability is above one threshold: the smallest sets on average.

    The score is −p. That of the paper, 1 − p, orders classes alike, but would make all probabilities below 1e-16 one.

    Args:
        probs: Shape ``(n, classes)``.
        draws: Not used.

    Returns:
        Scores of all classes, shape ``(n, classes)``.

    Example:
        >>> import numpy as np
        >>> lac(np.array([[0.7, 0.3]]), np.zeros(1))
        array([[-0.7, -0.3]])
    """
    return -probs
