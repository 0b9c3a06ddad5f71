"""Intervals against numbers worked out by other means."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from surefoot.statistics import NOTHING, Estimate, Spread, correlation, difference, ratio, spread, u_shape

A = {0: 0.11, 1: 0.13, 2: 0.12, 3: 0.10}
B = {0: 0.05, 1: 0.07, 2: 0.04, 3: 0.05, 9: 5.0}


def test_differences_are_paired_and_have_students_interval() -> None:
    found = difference(A, B)
    expected = stats.ttest_rel(list(A.values()), [B[seed] for seed in A]).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.n == 4


def test_ratio_has_the_interval_of_all_resamples() -> None:
    found = ratio(A, B)
    a, b = np.array([A[s] for s in A]), np.array([B[s] for s in A])
    every = [a[list(rows)].sum() / b[list(rows)].sum() for rows in itertools.product(range(4), repeat=4)]
    assert found.value == pytest.approx(a.sum() / b.sum())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(every, [0.025, 0.975])), rel=0.02)


def test_correlation_is_numpys() -> None:
    pairs = np.random.default_rng(0).normal(size=(20, 2))
    assert correlation(map(tuple, pairs)) == pytest.approx(np.corrcoef(pairs.T)[0, 1])
    assert math.isnan(correlation([(1.0, 2.0), (2.0, 3.0)]))


def test_the_bottom_of_a_u_is_not_chosen_where_it_is_measured() -> None:
    """Of settings that are all alike, the lowest on test lies below the ends by luck; the lowest elsewhere does not."""
    draw = np.random.default_rng(0)
    honest, picked = [], []
    for _ in range(300):
        on_test, elsewhere = ({0: list(draw.normal(size=6)), 1: list(draw.normal(size=6))} for _ in range(2))
        honest.append(u_shape(on_test, elsewhere)[0].value)
        picked.append(u_shape(on_test, on_test)[0].value)
    assert abs(np.mean(honest)) < 0.15  # standard error 0.06
    assert np.mean(picked) > 0.5
    assert not u_shape({0: [1.0, 2.0, 3.0]}, {1: [1.0, 2.0, 3.0]})[0].is_known


def test_a_spread_is_numpys_and_says_what_it_lacks() -> None:
    found = spread(A)
    assert (found.mean, found.sd, found.n) == pytest.approx((0.115, np.std(list(A.values()), ddof=1), 4))
    assert spread([3.0]) == Spread(3.0, None, 1)
    assert math.isnan(spread({}).mean)
    assert spread({}).n == 0


def test_few_seeds_have_no_interval() -> None:
    assert difference({0: 1.0}, {0: 0.5}) == Estimate(0.5, None, None, 1)
    assert not difference({0: 1.0}, {1: 1.0}).is_known
    assert not ratio({0: 1.0}, {0: 0.0}).is_known
    assert f"{NOTHING:.2f}, {Estimate(0.736):.0%}" == "unknown, 74 %"
