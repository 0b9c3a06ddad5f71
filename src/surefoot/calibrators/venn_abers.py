"""Inductive Venn–Abers predictors, one class against the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import fitting_data, fitting_weights
from surefoot.calibrators._one_vs_rest import share_out
from surefoot.calibrators._steps import count_below, padded
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

Whole = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class VennAbers(Calibrator):
    """Merges two isotonic regressions per class, in which the new row counts as a miss and as a hit.

    Example:
        >>> import numpy as np
        >>> x, low, high = np.array([[0.5], [0.5]]), np.array([[0.0, 0.6]] * 2), np.array([[0.4, 1.0]] * 2)
        >>> VennAbers(x, low, high, "calibration").probs(np.log([[0.2, 0.8]])).round(4)  # .4 / 1.4 and 1 / 1.4
        array([[0.2857, 0.7143]])
    """

    name: ClassVar[str] = "venn_abers"
    edges: Array
    low: Array
    high: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Look both probabilities up and merge them."""
        columns = logits.softmax(1).T.contiguous()
        below = count_below(values.edges, columns)
        last = values.edges.shape[1] - 1
        at_one = values.edges.gather(1, below.clamp(max=last)) == columns
        low = values.low.gather(1, below + at_one.to(below.dtype))
        high = values.high.gather(1, below)
        return share_out((high / (1 - low + high)).T, logits, 0.0)


def both_curves(scores: Array, hits: Array, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """Find what isotonic regression makes of a new row at every place, counted as a miss and as a hit.

    A new row at a place makes the cumulative sums of hits jump there. The regression's height is the slope of their
    convex hull across the jump, which is the common tangent of the hulls before and after it.

    Args:
        scores: Shape ``(n,)``.
        hits: 1 where the class is the true one.
        weights: How much each counts; alike when left out.

    Returns:
        Ascending places; the height as a miss by how many places are at or below the score; and as a hit by how many
        are below it.

    Example:
        >>> places, low, high = both_curves(np.array([0.2, 0.8]), np.array([0.0, 1.0]))
        >>> low, high
        (array([0. , 0. , 0.5]), array([0.5, 1. , 1. ]))

    Reference: Vovk, Petej and Fedorova 2015, arXiv:1511.00213.
    """
    places, own = np.unique(scores, return_inverse=True)
    mass = np.ones(len(scores)) if weights is None else weights
    x = np.append(0.0, np.bincount(own, mass).cumsum())
    y = np.append(0.0, np.bincount(own, mass * hits).cumsum())
    after, before = _hull(x, y), len(x) - 1 - _hull(-x[::-1], y[::-1])[::-1]
    low = np.append(0.0, _tangent(x, y, before, after, 0.0))
    high = np.append(_tangent(x, y, before, after, 1.0), 1.0)
    kept = np.flatnonzero((np.diff(low) != 0) | (np.diff(high) != 0))
    kept = kept if len(kept) else np.array([0])
    return places[kept], low[np.append(0, kept + 1)], high[np.append(kept, len(places))]


def _hull(x: Array, y: Array) -> Whole:
    """Return for each point the next one on the lower convex hull of itself and all after it; the last its own."""
    after = np.arange(len(x))
    xs, ys, chain = x.tolist(), y.tolist(), [len(x) - 1]
    for i in range(len(x) - 2, -1, -1):
        while len(chain) > 1:
            a, b = chain[-1], chain[-2]
            if (ys[a] - ys[i]) * (xs[b] - xs[a]) < (ys[b] - ys[a]) * (xs[a] - xs[i]):
                break
            chain.pop()
        after[i] = chain[-1]
        chain.append(i)
    return after


def _tangent(x: Array, y: Array, before: Whole, after: Whole, hit: float) -> Array:
    """Return the slopes of the tangents across a new row of weight 1 at each place."""
    left, right = np.arange(len(x) - 1), np.arange(1, len(x))
    while True:
        rise, run = y[right] - y[left] + hit, x[right] - x[left] + 1
        further = (after[right] != right) & ((y[after[right]] - y[right]) * run < rise * (x[after[right]] - x[right]))
        back = (
            ~further & (before[left] != left) & ((y[left] - y[before[left]]) * run > rise * (x[left] - x[before[left]]))
        )
        if not (further.any() or back.any()):
            result: Array = rise / run
            return result
        right, left = np.where(further, after[right], right), np.where(back, before[left], left)


@CALIBRATORS.register(
    "venn_abers",
    reference="Vovk et al. 2015, arXiv:1511.00213",
    keeps_order=False,
    parameters=lambda k: k,
    seconds=lambda n, k: 2e-6 * n * k,
)
def fit_venn_abers(predictions: Predictions) -> VennAbers:
    """Venn–Abers: isotonic regression with each new row counted as a hit and as a miss, merged; no zeros.

    Of two classes these are the probabilities of the second; of more, one class against the rest, divided by their sum.

    Args:
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    weights = fitting_weights(predictions)
    counted = None if weights is None else weights.numpy()
    columns = logits.softmax(1).T.contiguous().numpy()
    curves = [both_curves(column, (labels == k).double().numpy(), counted) for k, column in enumerate(columns)]
    places, low, high = zip(*curves, strict=True)
    return VennAbers(padded(places, fill=math.inf), padded(low), padded(high), predictions.split)
