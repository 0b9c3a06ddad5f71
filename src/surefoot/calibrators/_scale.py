"""The one number that multiplies all logits, by Newton's method."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surefoot.calibrators._fitting import count_rows

_CHUNK = 1 << 17
_WARM = 2000


def best_scale(
    logits: Tensor, labels: Tensor, lowest: float, highest: float, *, weights: Tensor | None = None
) -> float:
    """Find the β in [lowest, highest] for which softmax(β z) has the smallest NLL.

    The NLL is convex in β; its derivative E_β[z] − z_y, averaged, changes sign once. Newton's method on log β finds
    where, within a bracket that bisection takes over. A few rows find a start, from which three passes over all rows
    are usually enough: the first ones in the type of the logits, the last in float64, for the first derivative alone.

    Args:
        logits: Shape ``(n, classes)``; −∞ where a row has fewer choices than others.
        labels: Class indices, shape ``(n,)``.
        lowest: Smallest β allowed.
        highest: Largest β allowed; the result when the true class always has the largest logit.
        weights: How much each row counts, shape ``(n,)``; alike when left out.

    Returns:
        β.

    Example:
        >>> round(best_scale(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]), 0.01, 100), 6)  # log 3
        1.098612
    """
    start = 0.0
    if len(logits) > 2 * _WARM:
        step = len(logits) // _WARM
        few = None if weights is None else weights[::step]
        start = math.log(best_scale(logits[::step], labels[::step], lowest, highest, weights=few))
    return _Search(logits, labels, weights, math.log(lowest), math.log(highest)).run(start)


class _Search:
    def __init__(self, logits: Tensor, labels: Tensor, weights: Tensor | None, low: float, high: float) -> None:
        self._logits, self._weights = logits, weights
        self._highest = logits.amax(1)
        # A choice that a row does not have has no share at any scale, and so no part in the means.
        self._absent = bool(logits.isneginf().any())
        behind = logits.gather(1, labels[:, None]).squeeze(1).double() - self._highest.double()
        self._truth = (behind.sum() if weights is None else behind @ weights).item()
        self._low, self._high = low, high

    def run(self, u: float) -> float:
        if not self._truth:  # the true class has the largest logit everywhere: the sharper, the better
            return math.exp(self._high)
        u = min(max(u, self._low), self._high)
        low, high = self._low, self._high
        exact, curvature, nearby = self._logits.dtype == torch.float64, 0.0, False
        for step in range(200):
            # Close to the end the curvature of the step before serves as well: a step then leaves a thousandth.
            slope, curvature = self._derivatives(math.exp(u), exact, curvature if nearby else None)
            rounding = 0.0 if exact else 1e-4
            if slope < 0 or slope == curvature == 0:  # not sharp enough; or so sharp that nothing is left to tell
                low = max(low, u - rounding)
            else:
                high = min(high, u + rounding)
            newton = u - slope / (math.exp(u) * curvature) if curvature > 0 else math.inf
            inside, moved = low <= newton <= high, abs(newton - u)
            # Newton's error is about the square of its last step; with a curvature from nearby a thousandth of it.
            if exact and inside and moved < (1e-5 if nearby else 1e-6):
                return math.exp(newton)
            # Where data are separable Newton creeps towards a bound, so cutting the bracket takes turns with it.
            cut = not inside or (step >= 6 and step % 2 == 0)
            target = (low + high) / 2 if cut else newton
            moved, u = abs(target - u), target
            if exact and cut and high - low < 1e-12:
                break
            nearby = not exact and not cut and moved < 1e-3
            exact = exact or moved < 1e-3
        return math.exp(u)

    def _derivatives(self, beta: float, exact: bool, known: float | None) -> tuple[float, float]:
        """Return the first and second derivative of the NLL with respect to β; the second as it is, where known."""
        first = second = 0.0
        rows = max(1, _CHUNK // self._logits.shape[1])
        for start in range(0, len(self._logits), rows):
            z = self._logits[start : start + rows] - self._highest[start : start + rows, None]
            z = z.double() if exact else z
            share = (z * beta).exp_()
            total = share.sum(1)
            z = z.nan_to_num_(neginf=0.0) if self._absent else z
            mean = share.mul_(z).sum(1) / total
            counted = None if self._weights is None else self._weights[start : start + rows]
            first += _sum(mean, counted)
            if known is None:
                square = share.mul_(z).sum(1) / total
                second += _sum(square - mean.square(), counted)
        n = count_rows(self._highest, self._weights)
        return (first - self._truth) / n, second / n if known is None else known


def _sum(values: Tensor, weights: Tensor | None) -> float:
    return values.sum(dtype=torch.float64).item() if weights is None else (values.double() @ weights).item()
