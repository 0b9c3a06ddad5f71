"""Intervals and outcomes against numbers worked out by other means."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from surefoot.studies.contract import Estimate, Verdict
from surefoot.studies.statistics import (
    above,
    below,
    correlation,
    difference,
    mean_and_sd,
    no_worse,
    none_of,
    ratio,
    together,
    u_shape,
)

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


def test_few_seeds_say_nothing() -> None:
    assert difference({0: 1.0}, {0: 0.5}) == Estimate(0.5, None, None, 1)
    assert difference({0: 1.0}, {1: 1.0}).value is None
    assert ratio({0: 1.0}, {0: 0.0}).value is None
    two = Estimate(2.0, 1.9, 2.1, 2)
    assert above(two, 1, "it").outcome == "not resolved"
    assert above(Estimate(None, n=0), 1, "it") == Verdict("not resolved", "it is unknown: fewer than 3 seeds")


@pytest.mark.parametrize(
    ("low", "high", "outcome", "other"),
    [
        (1.1, 2.0, "held", "did not hold"),
        (0.5, 0.9, "did not hold", "held"),
        (0.9, 1.1, "not resolved", "not resolved"),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, outcome: str, other: str) -> None:
    estimate = Estimate((low + high) / 2, low, high, 5)
    assert above(estimate, 1, "it").outcome == outcome
    assert below(estimate, 1, "it").outcome == other


def test_no_worse_allows_what_it_tolerates() -> None:
    assert no_worse(Estimate(-0.001, -0.004, 0.002, 5), 0.005, "it").outcome == "held"
    assert no_worse(Estimate(-0.02, -0.03, -0.01, 5), 0.005, "it").outcome == "did not hold"


def test_correlation_is_numpys() -> None:
    pairs = np.random.default_rng(0).normal(size=(20, 2))
    assert correlation(map(tuple, pairs)) == pytest.approx(np.corrcoef(pairs.T)[0, 1])
    assert math.isnan(correlation([(1.0, 2.0), (2.0, 3.0)]))
    found = mean_and_sd([0.5, math.nan, 0.7])
    assert (found.value, found.high, found.n) == pytest.approx((0.6, 0.6 + np.std([0.5, 0.7], ddof=1), 2))


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [([3, 1, 2], "held", "held"), ([1, 2, 3], "did not hold", "held"), ([3, 2, 1], "held", "did not hold")],
)
def test_u_shape(shape: list[float], left: str, right: str) -> None:
    curves = {seed: [value + 0.01 * seed * at for at, value in enumerate(shape)] for seed in range(4)}
    contrasts = u_shape(curves, curves)
    assert [above(contrast, 0, "it").outcome for contrast in contrasts] == [left, right]


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
    assert u_shape({0: [1.0, 2.0, 3.0]}, {1: [1.0, 2.0, 3.0]})[0].value is None


def test_one_violation_is_enough() -> None:
    assert none_of(Estimate(0.0), Estimate(100.0), "theorems").outcome == "held"
    assert none_of(Estimate(1.0), Estimate(100.0), "theorems").outcome == "did not hold"
    assert none_of(Estimate(0.0), Estimate(0.0), "theorems").outcome == "not resolved"


def test_a_claim_with_parts_is_as_good_as_its_worst() -> None:
    held, open_, fell = Verdict("held", "a"), Verdict("not resolved", "b"), Verdict("did not hold", "c")
    assert together([held, held]).outcome == "held"
    assert together([held, open_]).outcome == "not resolved"
    assert together([held, open_, fell]).outcome == "did not hold"


def test_a_verdict_says_its_outcome_once() -> None:
    held, open_ = Verdict("held", "a is 1"), Verdict("not resolved", "b is 2")
    assert str(together([held, open_, open_])) == "not resolved. b is 2; b is 2. Held: a is 1."
    assert str(together([open_, Verdict("not resolved", "the rest is 3")])).count("not resolved") == 1
    many = together([Verdict("not resolved", "the rest is 3"), *[held] * 5])
    assert str(many) == "not resolved. The rest is 3; of the other parts 5 held."
    assert str(together([held, held])) == "held. a is 1; a is 1."
    assert above(Estimate(-0.2, -0.3, -0.1, 5), -0.5, "it").reason == "it is −0.2 (−0.3 to −0.1, n = 5), above −0.5"


def test_no_page_of_results_says_an_outcome_twice() -> None:
    pages = sorted((Path(__file__).parents[2] / "results").glob("*/README.md"))
    assert len(pages) == 24
    for page in pages:
        text = page.read_text()
        said = re.findall(r"(?i)\b(did not hold|not resolved|held)[.:]", text.split("*Rule")[0].split("**", 1)[1])
        assert len(said) == len(set(map(str.lower, said))), page
