"""The score of regularised adaptive prediction sets: a class far down the list costs extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from surefoot.errors import OptionError
from surefoot.prediction_sets._draws import Array
from surefoot.prediction_sets._quantile import WeightsAre, threshold
from surefoot.prediction_sets.aps import back, in_order
from surefoot.registry import SETS

LAMBDAS = (0.001, 0.01, 0.1, 0.2, 0.5)  # tried in the paper


def choose_regularisation(
    probs: Array,
    labels: Array,
    draws: Array,
    coverage: float,
    given: Mapping[str, Any],
    weights: Array | None = None,
    weights_are: WeightsAre = "importance",
) -> dict[str, Any]:
    """Choose ``k_reg`` and ``lam`` on rows that no threshold is taken from, as the paper does.

    ``k_reg`` is the place in the list within which enough of the true classes are. Of the λ tried, the one whose sets
    are smallest on average is taken, the first of several.

    Args:
        probs: Shape ``(n, classes)``.
        labels: Shape ``(n,)``.
        draws: One number in [0, 1) per row.
        coverage: How often sets are to hold the true class.
        given: What was said: a value that is not None stays.
        weights: How much each row counts.
        weights_are: What weights mean.

    Returns:
        All options.
    """
    rows = np.arange(len(labels))
    places = back(np.argsort(-probs, axis=1, kind="stable"), np.arange(1.0, probs.shape[1] + 1) + 0 * probs)
    k_reg = given["k_reg"]
    if k_reg is None:
        place = threshold(places[rows, labels], coverage, weights, weights_are=weights_are)
        k_reg = int(min(place, probs.shape[1]))
    best, smallest = given["lam"], np.inf
    for lam in LAMBDAS if best is None else ():
        scores = raps(probs, draws, k_reg=k_reg, lam=lam, randomised=given["randomised"])
        limit = threshold(scores[rows, labels], coverage, weights, weights_are=weights_are)
        size = float(np.average((scores <= limit).sum(1), weights=weights))
        if size < smallest - 1e-9:
            best, smallest = lam, size
    return {**given, "k_reg": k_reg, "lam": best}


@SETS.register("raps", reference="Angelopoulos et al. 2021", choose=choose_regularisation)
def raps(
    probs: Array, draws: Array, *, k_reg: int | None = None, lam: float | None = None, randomised: bool = True
) -> Array:
    """Adaptive sets in which classes far down the list cost extra: fewer very large sets.

    The score is that of APS plus λ for every place below the first ``k_reg``.

    Args:
        probs: Shape ``(n, classes)``.
        draws: One number in [0, 1) per row.
        k_reg: How many places are free; chosen on a part of the rows when left out.
        lam: λ, what each of the others costs; likewise.
        randomised: As for APS.

    Returns:
        Scores of all classes, shape ``(n, classes)``.

    Raises:
        OptionError: If the options are missing or negative.

    Example:
        >>> raps(np.array([[0.25, 0.5, 0.25]]), np.array([0.5]), k_reg=1, lam=0.1)
        array([[0.725, 0.25 , 1.075]])
    """
    if k_reg is None or lam is None or k_reg < 0 or lam < 0:
        raise OptionError(f"Expected k_reg ≥ 0 and lam ≥ 0 for raps, but got {k_reg} and {lam}. Give both.")
    order, scores = in_order(probs, draws, randomised)
    return back(order, scores + lam * np.maximum(np.arange(1, probs.shape[1] + 1) - k_reg, 0))
