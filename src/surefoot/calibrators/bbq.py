"""Bayesian binning into quantiles, one class against the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from surefoot.calibrators._base import Array
from surefoot.calibrators._fitting import count_rows, fitting_data, fitting_weights
from surefoot.calibrators._one_vs_rest import default_smoothing
from surefoot.calibrators._steps import Stepwise, padded
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions

_PRIOR = 2.0
_FINEST = 10**7  # rows from which on there are no finer binnings; weights can stand for any number of rows
_DROP = 0.001


@dataclass(frozen=True, eq=False)
class BBQ(Stepwise):
    """Averages many binnings of each class's probability; together they are one finer step function.

    Example:
        >>> import numpy as np
        >>> one_step = BBQ(np.full((2, 1), 0.5), np.array([[0.1, 0.9], [0.1, 0.9]]), 0.0, "calibration")
        >>> one_step.probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.9, 0.1]])
    """

    name: ClassVar[str] = "bbq"


@dataclass(frozen=True)
class Binning:
    """One way to bin scores of equal mass: inner edges, value of each bin and log marginal likelihood."""

    edges: Array
    values: Array
    log_evidence: float


def bin_equally(scores: Array, hits: Array, n_bins: int, weights: Array | None = None) -> Binning:
    """Cut sorted scores into bins of equal mass and rate the cut.

    Args:
        scores: Ascending, in [0, 1].
        hits: 1 where the class is the true one, in the same order.
        n_bins: How many bins; fewer where equal scores would be split.
        weights: How much each counts, in the same order; alike when left out.

    Returns:
        The binning.
    """
    mass = np.ones(len(scores)) if weights is None else weights
    up_to = mass.cumsum()
    cuts = np.searchsorted(up_to, np.round(np.arange(1, n_bins) * round(up_to[-1], 6) / n_bins), side="right")
    cuts = np.unique(np.searchsorted(scores, scores[np.minimum(cuts, len(scores) - 1)]))  # back to the first of equals
    cuts = cuts[cuts > 0]
    edges = (scores[cuts - 1] + scores[cuts]) / 2
    bounds = np.concatenate([[0.0], edges, [1.0]])
    middle = (bounds[:-1] + bounds[1:]) / 2
    at = np.concatenate([[0], cuts])
    size, ones = np.add.reduceat(mass, at), np.add.reduceat(mass * hits, at)
    prior = np.clip(middle, 0.005, 0.995)
    up, down = _PRIOR * prior, _PRIOR * (1 - prior)
    evidence = gammaln(ones + up) + gammaln(size - ones + down) - gammaln(size + _PRIOR)
    evidence += gammaln(_PRIOR) - gammaln(up) - gammaln(down)
    centre = (np.add.reduceat(mass * scores * hits, at) + middle) / (ones + 1)
    return Binning(edges, (ones + centre) / (size + 1), float(evidence.sum()))


def average_binnings(scores: Array, hits: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Average all plausible binnings, each weighed by its evidence, into one step function.

    Args:
        scores: In [0, 1].
        hits: 1 where the class is the true one.
        weights: How much each counts; alike when left out.

    Returns:
        Inner edges, and one value more than there are edges.
    """
    order = np.argsort(scores, kind="stable")
    scores, hits, weights = scores[order], hits[order], None if weights is None else weights[order]
    n = min(len(scores) if weights is None else round(float(weights.sum()), 6), _FINEST)
    fewest, most = max(1, math.floor(n ** (1 / 3) / 10)), min(math.ceil(n / 5), math.ceil(10 * n ** (1 / 3)))
    binnings = [bin_equally(scores, hits, n_bins, weights) for n_bins in range(fewest, max(fewest, most) + 1)]
    kept, shares = _prune(binnings)
    edges = np.unique(np.concatenate([binning.edges for binning in kept]))
    # Bin (a, b] of each binning, asked at the right ends of all the steps.
    ends = np.append(edges, 1.0)
    values = sum(w * each.values[np.searchsorted(each.edges, ends)] for w, each in zip(shares, kept, strict=True))
    return edges, np.asarray(values)


def _prune(binnings: list[Binning]) -> tuple[list[Binning], Array]:
    """Keep the best binnings, up to where the next one is hardly worse in units of the variance of all."""
    evidence = np.array([binning.log_evidence for binning in binnings])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    drops = -np.diff(weights[order]) / max(float(weights.var()), 1e-300)
    small = np.flatnonzero(drops <= _DROP)
    kept = order[: max(1, int(small[0]))] if len(small) else order
    return [binnings[j] for j in kept], weights[kept] / weights[kept].sum()


def _seconds(n: int, n_classes: int) -> float:
    """Guess how long a fit takes on one core: so many binnings of each class."""
    return float(n_classes * 10 * n ** (1 / 3) * (1.5e-4 + 8e-9 * n))


@CALIBRATORS.register(
    "bbq", reference="Naeini et al. 2015", keeps_order=False, parameters=lambda k: k, seconds=_seconds
)
def fit_bbq(predictions: Predictions, *, smoothing: float | None = None) -> BBQ:
    """BBQ: for each class an average of equal-mass binnings, weighed by how well each explains the labels.

    Args:
        predictions: Of the calibration split.
        smoothing: Weight of the uniform distribution; 1 / (n + 1) when left out.

    Returns:
        The fitted calibrator.
    """
    logits, labels = fitting_data(predictions)
    columns = logits.softmax(1).T.contiguous().numpy()
    weights = fitting_weights(predictions)
    each = None if weights is None else weights.numpy()
    steps = [average_binnings(column, (labels == k).double().numpy(), each) for k, column in enumerate(columns)]
    edges, values = padded([e for e, _ in steps], fill=math.inf), padded([v for _, v in steps])
    return BBQ(edges, values, default_smoothing(smoothing, count_rows(labels, weights)), predictions.split)
