"""Outcomes follow from intervals, and say their reasons once."""

from __future__ import annotations

import pytest

from surefoot.statistics import NOTHING, Estimate, u_shape
from surefoot.studies.contract import Verdict
from surefoot.studies.runner import find_studies
from surefoot.studies.verdicts import above, below, no_worse, none_of, together


def test_few_seeds_say_nothing() -> None:
    two = Estimate(2.0, 1.9, 2.1, 2)
    assert above(two, 1, "it").outcome == "not resolved"
    assert above(NOTHING, 1, "it") == Verdict("not resolved", "it is unknown: fewer than 3 seeds")


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


@pytest.mark.parametrize(
    ("shape", "left", "right"),
    [([3, 1, 2], "held", "held"), ([1, 2, 3], "did not hold", "held"), ([3, 2, 1], "held", "did not hold")],
)
def test_u_shape(shape: list[float], left: str, right: str) -> None:
    curves = {seed: [value + 0.01 * seed * at for at, value in enumerate(shape)] for seed in range(4)}
    contrasts = u_shape(curves, curves)
    assert [above(contrast, 0, "it").outcome for contrast in contrasts] == [left, right]


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


def test_the_tuned_method_is_judged_on_all_tasks_or_not_at_all() -> None:
    """C1: what is clear on some tasks is not resolved; on all of them it is held, and one part that fails decides."""
    judge = find_studies(["c1"])["c1"].judge
    clear = {
        "worse": Estimate(-0.01, -0.02, -0.005, 5),
        "accuracy": Estimate(0.001, -0.001, 0.003, 5),
        "short": Estimate(0.01, 0.005, 0.015, 5),
    }
    assert judge({**clear, "tasks": Estimate(13.0, n=5)}).outcome == "held"
    some = judge({**clear, "tasks": Estimate(8.0, n=5)})
    assert (some.outcome, some.reason[:33]) == ("not resolved", "8 of 13 tasks have been run. Held")
    failed = judge({**clear, "accuracy": Estimate(-0.01, -0.012, -0.008, 5), "tasks": Estimate(13.0, n=5)})
    assert failed.outcome == "did not hold"
