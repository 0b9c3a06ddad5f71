"""Fixed-sequence testing from the surest answers downwards, on counts of right and wrong answers in cells."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import betainc, betaincinv
from torch import Generator

Counts = np.ndarray[Any, Any]
_FIRST = 2  # times the rows that would do without an error: the first place where a chain of tests begins
_APART = 4  # each further beginning has this many times as many rows
_STEP = 1.01  # from one test to the next: rows above the threshold
_MOST_DRAWN = 10**9  # rows of a cell that NumPy can draw from


def rows_needed(risk: float, level: float) -> int:
    """Return how many answers, all of them right, it takes to show that at most a share ``risk`` is wrong.

    Args:
        risk: The share.
        level: How surely.

    Returns:
        The smallest n with (1 − risk)^n ≤ 1 − level.

    Example:
        >>> rows_needed(0.02, 0.95), rows_needed(0.05, 0.95)
        (149, 59)
    """
    return max(1, math.ceil(math.log(1 - level) / math.log1p(-risk) - 1e-9))


def upper_bound(errors: float, n: float, level: float) -> float:
    """Return Clopper and Pearson's one-sided upper bound of a share.

    Args:
        errors: How many of them.
        n: Of how many.
        level: How often such bounds are above the truth, at least.

    Returns:
        The bound.

    Example:
        >>> round(upper_bound(0, 149, 0.95), 4)  # 1 − 0.05^(1/149)
        0.0199
    """
    return float(betaincinv(errors + 1, n - errors, level)) if errors < n else 1.0


def plan(n: int, risk: float, level: float) -> tuple[Counts, Counts]:
    """Say at which numbers of rows to test, and how much of 1 − level each test brings along.

    Args:
        n: Number of rows. Nothing else about them may be known here.
        risk: The share of wrong answers that is allowed.
        level: How surely.

    Returns:
        Increasing numbers of rows, the last of them n, and the shares of 1 − level, which are 0 but where a chain
        begins; both are empty if n rows cannot show it.

    Example:
        >>> ranks, budget = plan(2000, 0.02, 0.95)
        >>> ranks[budget > 0].tolist(), budget[budget > 0].round(3).tolist()
        ([298, 1192], [0.025, 0.025])
    """
    needed = rows_needed(risk, level)
    if n < needed:
        return np.empty(0, np.int64), np.empty(0)
    first = _FIRST * needed if n >= _FIRST * needed else needed
    starts = [first]
    while starts[-1] * _APART <= n:
        starts.append(starts[-1] * _APART)
    steps = math.floor(math.log(n / first) / math.log(_STEP))
    between = (first * _STEP ** np.arange(steps + 1)).astype(np.int64)
    ranks = np.unique(np.concatenate([between, starts, [n]]).clip(first, n))
    budget = np.where(np.isin(ranks, starts), (1 - level) / len(starts), 0.0)
    return ranks, budget


class Stop(NamedTuple):
    """Where tests ended: the last cell to be taken, and what its test counted at which level.

    ``cell`` is None where no test was passed; the rest is then of the first one, or of all rows if they are too few.
    """

    cell: int | None
    n: int
    errors: int
    level: float


def surest_cells(count: Counts, errors: Counts, risk: float, level: float, source: Generator) -> Stop:
    """Find how far down from the surest cell answers are wrong at most a share ``risk`` of the time.

    Args:
        count: Answers in each cell, the surest cell first.
        errors: Wrong ones among them.
        risk: The share that is allowed.
        level: How surely; see :func:`~surefoot.metrics.selective.risk_threshold` for what is guaranteed and why.
        source: Puts the answers within a cell in order.

    Returns:
        The last cell to be taken.

    Example:
        >>> from surefoot.seeding import generator
        >>> surest_cells(np.array([400, 600]), np.array([0, 90]), 0.02, 0.95, generator(0, "example"))
        Stop(cell=0, n=400, errors=0, level=0.95)
    """
    above, wrong = count.cumsum(), errors.cumsum()
    ranks, budget = plan(int(count.sum()), risk, level)
    if not len(ranks):
        return Stop(None, int(count.sum()), int(errors.sum()), level)
    cells = np.searchsorted(above, ranks)  # the cell in which that many are reached
    inside = _wrong_among_first(ranks, cells, count, errors, source)
    p_first = _p_value(inside, ranks, risk)
    p_cell = _p_value(wrong[cells], above[cells], risk)
    whole = Stop(None, int(above[cells[0]]), int(wrong[cells[0]]), float(1 - budget[0]))
    found = whole if p_cell[0] >= p_first[0] else whole._replace(n=int(ranks[0]), errors=int(inside[0]))
    left = 0.0
    for cell, own, p in zip(cells.tolist(), budget.tolist(), np.maximum(p_first, p_cell).tolist(), strict=True):
        left = left + own
        if p <= left:
            found = Stop(cell, int(above[cell]), int(wrong[cell]), 1 - left)
        else:
            left = 0.0
    return found


def _p_value(errors: Counts, n: Counts, risk: float) -> Counts:
    """How likely so few errors are where a share ``risk`` is wrong: P(Binomial(n, risk) ≤ errors)."""
    p: Counts = np.where(errors < n, betainc(np.maximum(n - errors, 1e-300), errors + 1.0, 1 - risk), 1.0)
    return p


def _wrong_among_first(ranks: Counts, cells: Counts, count: Counts, errors: Counts, source: Generator) -> Counts:
    """Count the errors among the first so many answers, those within a cell taken in random order."""
    random = np.random.default_rng(int(torch.randint(2**62, (1,), generator=source)))
    above, wrong = count.cumsum(), errors.cumsum()
    found = wrong[cells].astype(np.int64)
    at, seen = 0, 0  # rows and errors that are passed
    for number in np.flatnonzero(above[cells] > ranks).tolist():  # those within a cell
        rank, cell = int(ranks[number]), int(cells[number])
        start = int(above[cell] - count[cell])
        if at < start:
            at, seen = start, int(wrong[cell] - errors[cell])
        bad, take = int(wrong[cell]) - seen, rank - at
        good = int(above[cell]) - at - bad
        too_many = max(good, bad) >= _MOST_DRAWN // 2  # then the worst order instead of a random one
        drawn = min(bad, take) if too_many else int(random.hypergeometric(bad, good, take))
        at, seen = rank, seen + drawn
        found[number] = seen
    return found
