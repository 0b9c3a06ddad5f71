"""Act above a threshold: how sure must an answer be for at most a given share of such answers to be wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator

from surefoot.errors import InputError, OptionError
from surefoot.metrics._input import Values, as_tensor
from surefoot.metrics._sequence import Counts, rows_needed, surest_cells, upper_bound
from surefoot.metrics.interval import Interval, check_level
from surefoot.metrics.shares import exact_ends
from surefoot.seeding import generator as make_generator


@dataclass(frozen=True)
class RiskThreshold:
    """Answers with at least this confidence are wrong at most a share ``risk`` of the time. Fractions.

    Attributes:
        risk: The share of wrong answers that is allowed.
        level: How surely it is kept to.
        threshold: Act where the confidence is at least this; None where no threshold could be shown to do.
        bound: Upper bound of the share of wrong answers at the level of the test that the threshold passed, at most
            ``risk``. Where there is no threshold, that of the surest answers, above ``risk``.
        n: How many rows were counted.
        n_above: How many of them are at or above the threshold; where there is none, how many of the surest ones
            were looked at first.
        errors: How many of those are wrong.
        needed: How many answers without an error it takes to show such a risk at all.
        rows: How many rows there were; more than ``n`` where weights made it leave some out at random.
    """

    risk: float
    level: float
    threshold: float | None
    bound: float
    n: int
    n_above: int
    errors: int
    needed: int
    rows: int

    @property
    def coverage(self) -> float:
        """Share of the counted rows at or above the threshold; 0 where there is none."""
        return self.n_above / self.n if self.threshold is not None else 0.0


@dataclass(frozen=True)
class RiskCheck:
    """What a threshold does on rows that it was not chosen on. Fractions, with exact intervals."""

    n: int
    n_above: int
    errors: int
    coverage: Interval
    risk: Interval | None
    """None where no row is above the threshold."""


def risk_threshold(
    confidence: Values,
    correct: Values,
    weights: Values | None = None,
    *,
    risk: float,
    level: float = 0.95,
    generator: Generator | None = None,
) -> RiskThreshold:
    r"""Find the lowest confidence from which on answers are wrong at most a share ``risk`` of the time.

    For every distribution of confidences and errors and every number n of independent rows:
    the probability that a threshold t is returned with P(wrong | confidence ≥ t) > risk is at most 1 − level.

    *Procedure.* Rows are put in order, the surest first, ties at random. At numbers of rows m₁ < m₂ < … that depend on
    n, risk and level alone, the hypothesis "more than ``risk`` are wrong above this place" is tested by the exact
    binomial probability P(Bin(m, risk) ≤ errors among the first m), and likewise at the next place at which the
    confidence changes, where a threshold can stand. Both must be passed; the first failure ends a chain of tests.
    Chains begin at several m, each with an equal share of 1 − level, and a chain that gets as far as the next beginning
    takes its share along: fixed-sequence testing with several beginnings (Angelopoulos et al. 2021), in the form of the
    fallback procedure (Wiens 2003). The place of the last test that was passed is the threshold.

    *Why it holds though places are those of the data.* Let S(s) be the probability of a row above place s, E(s) that of
    a wrong one, both continuous as ties are broken at random, and call s bad if E(s) > risk · S(s). At every end
    of a bad stretch E = risk · S, so between two such ends, within a bad stretch as within a good one, exactly the
    share ``risk`` is wrong. Given how many rows lie in each stretch, errors above an end of one are therefore
    Binomial(·, risk), and above a place within a bad stretch no fewer. Which tests are the first of bad
    places is determined by these numbers of rows alone, so each such test is passed with at most the
    probability that it has left, and these add up to at most 1 − level. No monotone risk is assumed. One case is left
    to simulation: where E = risk · S is crossed among rows of one and the same confidence, which of its tests comes
    first depends on the rows above them too. ``benchmarks/selective.py`` shows no excess there.

    *Weights* say how many rows of the population a row represents. A row is kept with probability weight / largest
    weight; those kept are a plain sample of the population, and all of the above holds for them, provided that no
    weight in the population is larger than the largest one here. Kish's effective number would not do: binomial bounds
    with it are not exact.

    Args:
        confidence: How sure each answer is, shape ``(n,)``; any finite score.
        correct: Whether it is right, shape ``(n,)``.
        weights: How much each row represents, ≥ 0.
        risk: The share of wrong answers that is allowed.
        level: How surely it is to be kept to.
        generator: Orders ties and leaves rows out by weight; the same numbers each time when left out.

    Returns:
        The threshold, or how far the surest rows are from allowing one.

    Raises:
        InputError: If the rows do not fit together or are no numbers.
        OptionError: If risk or level is no share.

    Example:
        >>> found = risk_threshold([0.9] * 400 + [0.6] * 100, [1] * 400 + [0] * 100, risk=0.02)
        >>> found.threshold, found.n_above, found.errors, found.coverage, round(found.bound, 4)
        (0.9, 400, 0, 0.8, 0.0075)
    """
    source = generator or make_generator(0, "risk threshold")
    sure, right = _rows(confidence, correct)
    n = len(sure)
    if weights is not None:
        kept = _thinned(weights, n, source)
        sure, right = sure[kept], right[kept]
    values, places = np.unique(-sure, return_inverse=True)
    count = np.bincount(places, minlength=len(values))
    errors = np.bincount(places[~right], minlength=len(values))
    return threshold_of_cells(-values, count, errors, risk=risk, level=level, rows=n, generator=source)


def threshold_of_cells(
    values: Counts,
    count: Counts,
    errors: Counts,
    *,
    risk: float,
    level: float = 0.95,
    rows: int | None = None,
    generator: Generator | None = None,
) -> RiskThreshold:
    """Find the threshold from counts in cells of confidence, which may be empty.

    Args:
        values: The lowest confidence of each cell, decreasing.
        count: Answers in each cell.
        errors: Wrong ones among them.
        risk: The share of wrong answers that is allowed.
        level: How surely it is to be kept to.
        rows: How many rows there were; else as many as are counted.
        generator: Orders the rows within a cell; the same numbers each time when left out.

    Returns:
        As :func:`risk_threshold`, of which this is the part that counts.

    Raises:
        OptionError: If risk or level is no share.

    Example:
        >>> threshold_of_cells(np.array([0.9, 0.0]), np.array([100, 50]), np.array([0, 9]), risk=0.02).needed
        149
    """
    check_level(level)
    check_risk(risk)
    found = surest_cells(count, errors, risk, level, generator or make_generator(0, "risk threshold"))
    n, bound = int(count.sum()), upper_bound(found.errors, found.n, found.level)
    return RiskThreshold(
        risk=risk,
        level=level,
        threshold=None if found.cell is None else float(values[found.cell]),
        bound=bound if found.cell is None else min(risk, bound),  # above it by rounding only
        n=n,
        n_above=found.n,
        errors=found.errors,
        needed=rows_needed(risk, level),
        rows=n if rows is None else rows,
    )


def risk_above(threshold: float, confidence: Values, correct: Values, *, level: float = 0.95) -> RiskCheck:
    """Check a threshold on rows that it was not chosen on.

    Args:
        threshold: Act where the confidence is at least this.
        confidence: How sure each answer is, shape ``(n,)``.
        correct: Whether it is right, shape ``(n,)``.
        level: Of the intervals.

    Returns:
        Share of wrong answers above it, and how many are above it, with exact intervals.

    Example:
        >>> check = risk_above(0.9, [0.95, 0.9, 0.9, 0.5], [1, 1, 0, 0])
        >>> check.n_above, check.errors, round(check.risk.high, 2), check.coverage.estimate
        (3, 1, 0.91, 0.75)
    """
    sure, right = _rows(confidence, correct)
    above = sure >= threshold
    return check_of_counts(len(sure), int(above.sum()), int((above & ~right).sum()), level)


def check_of_counts(n: int, n_above: int, errors: int, level: float) -> RiskCheck:
    """Put exact intervals around the share of rows above a threshold, and of errors among them.

    Args:
        n: How many rows there are; at least one.
        n_above: How many of them are above the threshold.
        errors: How many of those are wrong.
        level: Of the intervals.

    Returns:
        The check.
    """
    coverage = Interval("coverage", n_above / n, *exact_ends(n_above, n, level), level, "exact")
    risk = None
    if n_above:
        risk = Interval("risk", errors / n_above, *exact_ends(errors, n_above, level), level, "exact")
    return RiskCheck(n, n_above, errors, coverage, risk)


def check_risk(risk: float) -> None:
    """Refuse a risk that is no share."""
    if not 0 < risk < 1:
        raise OptionError(
            f"Expected a risk between 0 and 1, but got {risk}. 0.02 allows 2 % of the answers to be wrong."
        )


def _rows(confidence: Values, correct: Values) -> tuple[Any, Any]:
    sure, right = (as_tensor(each, what) for each, what in ((confidence, "confidence"), (correct, "correct")))
    if sure.ndim != 1 or sure.shape != right.shape or not len(sure):
        raise InputError(
            f"Expected confidence (n,) and correct (n,) with n ≥ 1, but got {tuple(sure.shape)} and "
            f"{tuple(right.shape)}. Pass one of each per answer."
        )
    sure, right = sure.double(), right.double()
    if not bool(sure.isfinite().all()) or not bool(((right == 0) | (right == 1)).all()):
        raise InputError(
            "Expected finite confidences, and 0 or 1 for whether each answer is right, but got something else. Leave "
            "rows out where one is missing."
        )
    return sure.numpy(), right.numpy() == 1


def _thinned(weights: Values, n: int, source: Generator) -> Counts:
    """Choose rows at random in proportion to their weights, the heaviest always."""
    each = as_tensor(weights, "weights").double()
    if each.shape != (n,) or not bool((each.isfinite() & (each >= 0)).all()) or not bool((each > 0).any()):
        raise InputError(
            f"Expected one finite weight ≥ 0 per row, not all 0, but got {tuple(each.shape)} for {n} rows with minimum "
            f"{each.min().item() if len(each) else 'none'}. Pass how much each row represents."
        )
    drawn = torch.rand(n, generator=source, dtype=torch.float64)
    kept: Counts = (drawn * each.max() < each).numpy()
    return kept
