"""Isotonic regression, one class against the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import isotonic_regression
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._fitting import check_fitting_data, count_rows, fitting_weights
from surefoot.calibrators._one_vs_rest import default_smoothing, share_out
from surefoot.calibrators._steps import count_below, padded
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

_CLASSES_AT_ONCE = 64
_CELL_BITS = 14  # of the cells by which scores are counted: few enough to stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Isotonic(Calibrator):
    """Maps each class's probability by a rising curve through knots, straight in between, then divides by the sum.

    Example:
        >>> import numpy as np
        >>> x, y = np.array([[0.0, 1.0]] * 2), np.array([[0.1, 0.9]] * 2)
        >>> Isotonic(x, y, 0.0, "calibration").probs(np.log([[0.75, 0.25]])).round(4)  # .7 and .3
        array([[0.7, 0.3]])
    """

    name: ClassVar[str] = "isotonic"
    x: Array
    y: Array
    smoothing: float
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Interpolate each class between its knots."""
        return share_out(interpolate(values.x, values.y, logits.softmax(1)), logits, values.smoothing)


def interpolate(x: Tensor, y: Tensor, probs: Tensor) -> Tensor:
    """Follow each class's curve; constant before its first knot and after its last.

    Args:
        x: Ascending places of knots, shape ``(classes, m)``; the last one repeated where there are fewer.
        y: Their heights.
        probs: Shape ``(n, classes)``.

    Returns:
        Shape ``(n, classes)``.
    """
    columns = probs.T.contiguous()
    right = count_below(x, columns).clamp(max=x.shape[1] - 1)
    left = (right - 1).clamp(min=0)
    x0, x1, y0, y1 = x.gather(1, left), x.gather(1, right), y.gather(1, left), y.gather(1, right)
    share = ((columns - x0) / (x1 - x0).clamp(min=1e-300)).clamp(0, 1)
    # Where both knots are one place, before the first, the height is that of the right one.
    return torch.where(x1 > x0, y0 + share * (y1 - y0), y1).T


def rising_curve(
    scores: Array, positive: np.ndarray[Any, np.dtype[np.bool_]], weights: Array | None = None
) -> tuple[Array, Array]:
    """Fit the rising curve that is closest to labels 0 and 1 in squares.

    Between two neighbouring scores of positives all labels are 0 and share one height: that of the positive before
    them, since a 0 after anything higher is always averaged with it. So only the ranks of the positives count, and
    the regression runs over twice as many points as there are of those.

    Args:
        scores: In [0, 1], shape ``(n,)``.
        positive: Which labels are 1, shape ``(n,)``.
        weights: How much each counts, shape ``(n,)``; alike when left out.

    Returns:
        Places and heights of the knots: both ends of every level part.

    Example:
        >>> rising_curve(np.array([0.1, 0.2, 0.3]), np.array([False, True, False]))
        (array([0.1, 0.2, 0.3]), array([0. , 0.5, 0.5]))
    """
    if weights is not None:
        return _weighted_curve(scores, positive, weights)
    places, hits = np.unique(scores[positive], return_counts=True)
    lowest, highest = scores.min(), scores.max()
    below, up_to, before = _ranks(scores, places)
    # Cells 0, 2, 4 …: strictly between positives; 1, 3, 5 …: at the same score as one. Of a level part that begins
    # strictly between positives there is only one, the first.
    n_cells = 2 * len(places) + 1
    weight, rate = np.empty(n_cells), np.zeros(n_cells)
    weight[::2] = np.append(below, len(scores)) - np.append(0, up_to)
    weight[1::2] = up_to - below
    rate[1::2] = hits / weight[1::2]
    first, last = np.full(n_cells, lowest), np.full(n_cells, highest)
    first[1::2] = last[1::2] = places
    last[:-1:2] = before
    used = weight > 0
    return _knots(rate[used], weight[used], first[used], last[used])


def _weighted_curve(
    scores: Array, positive: np.ndarray[Any, np.dtype[np.bool_]], weights: Array
) -> tuple[Array, Array]:
    """Do it for rows that count differently: over all places, sorted."""
    places, own = np.unique(scores, return_inverse=True)
    weight: Array = np.bincount(own, weights).astype(np.float64)
    return _knots(np.bincount(own, weights * positive) / weight, weight, places, places)


def _knots(rate: Array, weight: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Return both ends of every level part; each cell reaches from its first place to its last."""
    fitted = isotonic_regression(rate, weights=weight)
    starts, ends = fitted.blocks[:-1], fitted.blocks[1:] - 1
    x = np.stack([first[starts], last[ends]], 1).flatten()
    y = np.repeat(fitted.x[starts], 2)
    keep = np.append(True, np.diff(x) > 0)  # a level part of one score is one knot
    return x[keep], y[keep]


def _ranks(scores: Array, places: Array) -> tuple[Array, Array, Array]:
    """Rank a few scores among all: how many are below each, how many up to it, and which one comes before it.

    The leading bits of a non-negative float rise with it. Counted by them, all scores fall into fine cells, and only
    those in a cell with a place, or in the last filled one before it, have to be sorted.

    Args:
        scores: Not negative, shape ``(n,)``.
        places: Some of them, ascending, none twice.

    Returns:
        Three arrays with a number per place; the score before the first is any where there is none.
    """
    leading = np.ascontiguousarray(scores).view(np.int64) >> 32
    start, end = int(leading.min()), int(leading.max())
    coarser = max(0, (end - start).bit_length() - _CELL_BITS)
    cells = (leading - start) >> coarser
    counts = np.bincount(cells)
    ends = counts.cumsum()
    own = ((places.view(np.int64) >> 32) - start) >> coarser
    previous = np.searchsorted(ends, ends[own] - counts[own])
    near = np.zeros(len(counts), bool)
    near[own] = near[previous] = True
    some = np.sort(scores[near[cells]])
    # Sorted scores are without those of far cells: as many as precede the place's own cell are added back.
    left_out = np.cumsum(np.where(near, 0, counts))[own]
    left, right = np.searchsorted(some, places), np.searchsorted(some, places, side="right")
    return left + left_out, right + left_out, some[np.maximum(left - 1, 0)]


@CALIBRATORS.register("isotonic", reference="Zadrozny and Elkan 2002", keeps_order=False, parameters=lambda k: k)
def fit_isotonic(predictions: Predictions, *, smoothing: float | None = None) -> Isotonic:
    """Isotonic regression: for each class the rising curve closest to the labels, then divided by the row's sum.

    Rows that no class claims keep their probabilities; zeros are lifted by ``smoothing``, so that the NLL is finite.

    Args:
        predictions: Of the calibration split.
        smoothing: Weight of the uniform distribution; 1 / (n + 1) when left out.

    Returns:
        The fitted calibrator.
    """
    logits, labels = check_fitting_data(predictions)
    log_total = logits.double().logsumexp(1) if logits.numel() < 1 << 24 else _log_total(logits)
    weights = fitting_weights(predictions)
    counted = None if weights is None else weights.numpy()
    truth, curves = labels.numpy(), []
    for start in range(0, logits.shape[1], _CLASSES_AT_ONCE):
        columns = (logits[:, start : start + _CLASSES_AT_ONCE].double() - log_total[:, None]).exp_().T.contiguous()
        curves += [rising_curve(column, truth == start + k, counted) for k, column in enumerate(columns.numpy())]
    x, y = padded([x for x, _ in curves]), padded([y for _, y in curves])
    return Isotonic(x, y, default_smoothing(smoothing, count_rows(labels, weights)), predictions.split)


def _log_total(logits: Tensor) -> Tensor:
    return torch.cat([rows.double().logsumexp(1) for rows in logits.split(1024)])
