"""Thresholds with a guarantee: against a slow version, against MAPIE's tests, and by simulation at the worst places."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.errors import InputError, OptionError
from surefoot.metrics import risk_above, risk_threshold
from surefoot.metrics._sequence import plan, rows_needed, surest_cells, upper_bound
from surefoot.metrics.selective import threshold_of_cells
from surefoot.seeding import generator

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


def chance(errors: int, n: int, risk: float) -> float:
    """P(Binomial(n, risk) ≤ errors), term by term."""
    return math.fsum(math.comb(n, k) * risk**k * (1 - risk) ** (n - k) for k in range(errors + 1))


def slowly(confidence: np.ndarray, right: np.ndarray, risk: float, level: float) -> float | None:
    """The procedure of the docstring, row by row; without ties no random order is needed."""
    order = np.argsort(-confidence)
    ranks, budget = plan(len(order), risk, level)
    left, found = 0.0, None
    for m, own in zip(ranks.tolist(), budget.tolist(), strict=True):
        left += own
        if chance(sum(not right[i] for i in order[:m]), m, risk) <= left:
            found = float(confidence[order[m - 1]])
        else:
            left = 0.0
    return found


@pytest.mark.parametrize("n", [29, 60, 300])
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.2])
def test_same_as_row_by_row(n: int, rate: float) -> None:
    rng = np.random.default_rng(n)
    confidence = rng.random(n)
    right = rng.random(n) > rate * 2 * (1 - confidence)
    found = risk_threshold(confidence, right, risk=0.1, level=0.95)
    assert found.threshold == slowly(confidence, right, 0.1, 0.95)
    if found.threshold is not None:
        above = confidence >= found.threshold
        assert (found.n_above, found.errors) == (above.sum(), (above & ~right).sum())
        assert found.bound <= 0.1


@pytest.mark.parametrize(("risk", "level"), [(0.02, 0.95), (0.05, 0.95), (0.1, 0.9), (0.001, 0.99), (0.5, 0.5)])
def test_rows_without_an_error_that_are_needed(risk: float, level: float) -> None:
    n = rows_needed(risk, level)
    assert chance(0, n, risk) <= 1 - level < chance(0, n - 1, risk)
    assert upper_bound(0, n, level) <= risk < upper_bound(0, n - 1, level)
    just = risk_threshold(np.linspace(0.5, 1, n), np.ones(n), risk=risk, level=level)
    assert (just.threshold, just.coverage, just.needed) == (0.5, 1.0, n)
    if n > 1:
        few = risk_threshold(np.linspace(0.5, 1, n - 1), np.ones(n - 1), risk=risk, level=level)
        assert (few.threshold, few.coverage, few.needed, few.n) == (None, 0.0, n, n - 1)
        assert few.bound > risk


def test_bounds_are_those_of_the_binomial_distribution() -> None:
    for errors, n in ((0, 10), (3, 50), (50, 50), (9, 400)):
        bound = upper_bound(errors, n, 0.95)
        assert chance(errors, n, bound) == pytest.approx(1.0 if errors == n else 0.05)


def test_shares_of_what_may_be_missed_add_up() -> None:
    for n in (149, 297, 298, 5000, 10**9):
        ranks, budget = plan(n, 0.02, 0.95)
        assert budget.sum() == pytest.approx(0.05)
        assert budget[0] > 0
        assert ranks[-1] == n
        assert (np.diff(ranks) > 0).all()
        assert len(ranks) < 2000


def test_ties_are_taken_or_left_together() -> None:
    confidence = np.repeat([0.99, 0.9, 0.8], [500, 500, 500])
    right = np.concatenate([np.ones(500), np.ones(500), np.arange(500) % 3 > 0])
    found = risk_threshold(confidence, right, risk=0.02)
    assert (found.threshold, found.n_above, found.errors) == (0.9, 1000, 0)


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(2000).round(2)
    right = rng.random(2000) < 0.9 + 0.1 * confidence
    mixed = rng.permutation(2000)
    first = risk_threshold(confidence, right, risk=0.05)
    assert first == risk_threshold(confidence[mixed], right[mixed], risk=0.05)
    assert first == risk_threshold(torch.from_numpy(confidence), right.tolist(), risk=0.05)


def test_cells_so_large_that_nothing_is_drawn() -> None:
    """Then the worst order within a cell is assumed, and a cell that has enough room is still taken."""
    count, errors = np.array([10**6, 3 * 10**9]), np.array([0, 3 * 10**6])
    stop = surest_cells(count, errors, 0.02, 0.95, generator(0, "test"))
    assert stop.cell == 1


def test_where_none_qualifies_the_surest_are_described() -> None:
    found = risk_threshold(np.linspace(0, 1, 1000), np.arange(1000) % 5 > 0, risk=0.02)
    assert found.threshold is None
    assert (found.n_above, found.errors) == (298, 59)
    assert found.bound > 0.2


def test_weights_that_are_equal_change_nothing() -> None:
    rng = np.random.default_rng(1)
    confidence, right = rng.random(1000), rng.random(1000) < 0.99
    plain = risk_threshold(confidence, right, risk=0.05)
    assert risk_threshold(confidence, right, np.full(1000, 3.0), risk=0.05) == plain


def test_weights_make_the_represented_rows_count() -> None:
    """The wrong rows are rare in the file and frequent in what it represents."""
    confidence = np.concatenate([np.full(2000, 0.9), np.full(2000, 0.8)])
    right = np.concatenate([np.ones(2000), np.arange(2000) % 100 > 0])
    weights = np.where(right == 1, 1.0, 20.0)
    assert risk_threshold(confidence, right, risk=0.02).threshold == 0.8
    found = risk_threshold(confidence, right, weights, risk=0.02)
    assert found.threshold is None  # 17 % of the represented rows at 0.8, and about 100 rows are left at 0.9
    assert found.n < 500
    assert found.rows == 4000


def test_the_check_is_exact() -> None:
    check = risk_above(0.9, [0.95, 0.9, 0.5, 0.99], [1, 0, 0, 1])
    assert (check.n, check.n_above, check.errors) == (4, 3, 1)
    assert check.risk is not None
    assert chance(1, 3, check.risk.high) == pytest.approx(0.025)
    assert risk_above(2.0, [0.5], [1]).risk is None


@pytest.mark.parametrize(
    ("confidence", "correct", "weights", "options", "says"),
    [
        ([], [], None, {"risk": 0.1}, r"Expected confidence \(n,\) and correct \(n,\) with n ≥ 1, but got \(0,\)"),
        ([0.5], [1, 0], None, {"risk": 0.1}, r"but got \(1,\) and \(2,\)\. Pass one of each per answer"),
        ([math.nan], [1], None, {"risk": 0.1}, "Expected finite confidences, and 0 or 1"),
        ([0.5], [2], None, {"risk": 0.1}, "Leave rows out where one is missing"),
        ([0.5], [1], [-1.0], {"risk": 0.1}, r"Expected one finite weight ≥ 0 per row, not all 0, but got \(1,\)"),
        ([0.5], [1], [0.0], {"risk": 0.1}, "Pass how much each row represents"),
        ([0.5], [1], None, {"risk": 2}, "Expected a risk between 0 and 1, but got 2. 0.02 allows 2 % of the answers"),
        ([0.5], [1], None, {"risk": 0.1, "level": 1}, "Expected a level between 0 and 1, but got 1"),
    ],
)
def test_refused(confidence: list, correct: list, weights: list | None, options: dict, says: str) -> None:
    with pytest.raises((InputError, OptionError), match=says):
        risk_threshold(confidence, correct, weights, **options)


def test_beside_mapie() -> None:
    """MAPIE tests other places, so what can be compared are its p-values, and that ours reaches at least as far.

    It tests a list of thresholds from its start, where few rows are and nothing can pass, or each with an equal share
    of the level. Its p-values are those of the binomial distribution; rounding makes one error more of some rates.
    """
    pytest.importorskip("mapie", reason="mapie is not installed")
    from mapie.risk_control import BinaryClassificationController
    from scipy.stats import binom

    rng = np.random.default_rng(3)
    score = rng.random(3000)
    happened = (rng.random(3000) < 0.9 + 0.1 * score).astype(int)
    grid = np.linspace(0.95, 0.05, 10)
    peer = BinaryClassificationController(
        lambda x: np.stack([1 - x[:, 0], x[:, 0]], 1),
        "precision",
        target_level=0.95,
        confidence_level=0.95,
        list_predict_params=grid,
        fwer_method="bonferroni",
    )
    peer.calibrate(score[:, None], happened)
    theirs = np.ravel(peer.p_values)
    cells = [(int((score >= at).sum()), int(((score >= at) & (happened == 0)).sum())) for at in grid]
    exact = np.array([binom.cdf(errors, n, 0.05) for n, errors in cells])
    one_more = np.array([binom.cdf(errors + 1, n, 0.05) for n, errors in cells])
    assert ((exact <= theirs + 1e-12) & (theirs <= one_more + 1e-12)).all()
    assert np.isclose(theirs, exact).any()
    ours = risk_threshold(score, happened, risk=0.05)
    assert ours.threshold is not None
    assert ours.threshold <= peer.best_predict_param


@pytest.mark.parametrize(
    ("name", "n"),
    [("at the limit everywhere", 200), ("bad first, then at the limit", 200), ("hovering at the limit", 1000)],
)
def test_seldom_false_at_the_worst_places(name: str, n: int) -> None:
    """Of 200 studies at most 20 would be false in 99.9 % of cases if 5 % were; one by one it is far more."""
    from selective import study

    ours, one_by_one = study(name, n, 0.1, 200)
    assert ours.false <= 20
    assert one_by_one.false > 1.5 * ours.false


def test_cells_and_values_agree() -> None:
    rng = np.random.default_rng(2)
    confidence, right = rng.random(3000).round(1), rng.random(3000) < 0.97
    values = np.unique(confidence)[::-1]
    count = np.array([(confidence == value).sum() for value in values])
    errors = np.array([((confidence == value) & ~right).sum() for value in values])
    assert threshold_of_cells(values, count, errors, risk=0.05) == risk_threshold(confidence, right, risk=0.05)
