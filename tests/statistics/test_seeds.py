"""Intervals against numbers worked out by other means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from surefoot.statistics import NOTHING, Estimate, Spread, correlation, difference, mean, ratio, spread, u_shape

A = {0: 0.11, 1: 0.13, 2: 0.12, 3: 0.10}
B = {0: 0.05, 1: 0.07, 2: 0.04, 3: 0.05, 9: 5.0}


def test_differences_are_paired_and_have_students_interval() -> None:
    found = difference(A, B)
    expected = stats.ttest_rel(list(A.values()), [B[seed] for seed in A]).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.n == 4


def test_a_ratio_has_students_interval_of_its_logarithm() -> None:
    found = ratio(A, B)
    logs = [[math.log(values[seed]) for seed in A] for values in (A, B)]
    expected = stats.ttest_rel(*logs).confidence_interval()
    assert found.value == pytest.approx(stats.gmean([A[seed] / B[seed] for seed in A]))
    assert (math.log(found.low), math.log(found.high)) == pytest.approx((expected.low, expected.high))
    assert found.p_value(1.5) == pytest.approx(stats.ttest_1samp(np.subtract(*logs), math.log(1.5)).pvalue)


def test_intervals_of_five_seeds_hold_the_truth_as_often_as_they_say() -> None:
    draw = np.random.default_rng(0)
    drawn = [{s: math.exp(0.3 * draw.normal()) for s in range(5)} for _ in range(2000)]
    found = [ratio(values, dict.fromkeys(values, 2.0)) for values in drawn]
    assert np.mean([each.low <= 0.5 <= each.high for each in found]) == pytest.approx(0.95, abs=0.015)


def test_p_values_are_students_and_agree_with_the_interval() -> None:
    values = [0.1, 0.3, 0.2, 0.6, 0.5]
    found = mean(values)
    for limit in (0.0, 0.1, 0.3, 0.5, 0.6, found.low, found.high):
        assert found.p_value(limit) == pytest.approx(stats.ttest_1samp(values, limit).pvalue)
        if limit not in (found.low, found.high):
            assert (found.p_value(limit) < 0.05) == (not found.low < limit < found.high)
    assert NOTHING.p_value(0) == mean([1.0]).p_value(0) == 1
    assert (mean([2.0, 2.0]).p_value(1), mean([2.0, 2.0]).p_value(2)) == (0, 1)


def test_as_many_seeds_as_are_asked_for_tell() -> None:
    """An effect of one standard deviation: so many seeds find it in about four cases of five, half as many do not."""
    wanted = mean([0.0, 1.0, 2.0, 1.0, 1.0]).seeds_to_tell(1 - math.sqrt(0.5))
    assert wanted == mean([0.0, 1.0, 2.0, 1.0, 1.0]).seeds_to_tell(1 + math.sqrt(0.5))
    draw = np.random.default_rng(0)

    def share_found(n: int) -> float:
        drawn = draw.normal(1.0, 1.0, (2000, n))
        return float(np.mean(stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05))

    assert wanted is not None
    assert share_found(wanted) == pytest.approx(0.8, abs=0.06)
    assert share_found(wanted // 2) < 0.6
    assert mean([0.0, 1.0, 2.0]).seeds_to_tell(1.0) is None
    assert NOTHING.seeds_to_tell(0) is None


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
