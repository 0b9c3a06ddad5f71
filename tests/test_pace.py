"""How long the runs that are left take, told by those that were made."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.cli.pace import Pace
from surefoot.studies.compare import make_spec
from surefoot.studies.engine import Job

SLOW, QUICK = "resnet8", "mlp:width=8"


def jobs(*models: str, method: str = "sgd") -> list[Job]:
    made = [make_spec(method, data="digits", model=model, epochs=10) for model in models]
    return [Job(spec, Path(f"run-{place}")) for place, spec in enumerate(made)]


def test_nothing_is_guessed_before_anything_was_made() -> None:
    pace = Pace(jobs(QUICK, QUICK))
    assert pace.left(0.0) is None
    pace.go_on(Path("run-0"), 0.0, 0.0)
    assert pace.left(5.0) is None


def test_half_a_run_tells_the_rest() -> None:
    pace = Pace(jobs(QUICK, QUICK))
    pace.go_on(Path("run-0"), 0.0, 100.0)
    pace.go_on(Path("run-0"), 0.5, 110.0)
    assert pace.left(110.0) == pytest.approx(30.0)


def test_quick_runs_say_nothing_of_slow_ones_once_one_of_these_is_known() -> None:
    """100 seconds for a residual network and 1 for a perceptron: the rest is one of each, whatever came first."""
    pace = Pace(jobs(QUICK, QUICK, SLOW, SLOW))
    pace.go_on(Path("run-0"), 0.0, 0.0)
    pace.end(Path("run-0"), 1.0)
    assert pace.left(1.0) == pytest.approx(3.0)  # of slow ones nothing is known yet
    pace.go_on(Path("run-2"), 0.0, 1.0)
    pace.end(Path("run-2"), 101.0)
    assert pace.left(101.0) == pytest.approx(101.0)
    assert pace.done == pytest.approx(sum(pace.work.values()) / 2)


def test_runs_are_made_as_many_at_once_as_before() -> None:
    pace = Pace(jobs(*[QUICK] * 6))
    for now in (0.0, 10.0):
        for name in ("run-0", "run-1") if now == 0.0 else ("run-2", "run-3"):
            pace.go_on(Path(name), 0.0, now)
            pace.end(Path(name), now + 10.0)
    assert pace.left(20.0) == pytest.approx(10.0)


def test_what_was_there_already_says_nothing_about_the_others() -> None:
    """A finished run from before, and one that goes on from four fifths."""
    pace = Pace(jobs(QUICK, QUICK, QUICK))
    pace.end(Path("run-0"), 0.0)
    pace.go_on(Path("run-1"), 0.8, 0.0)
    pace.end(Path("run-1"), 2.0)
    assert pace.left(2.0) == pytest.approx(10.0)


def test_a_run_that_is_tried_once_more_is_all_to_be_made() -> None:
    pace = Pace(jobs(QUICK, QUICK))
    pace.go_on(Path("run-0"), 0.0, 0.0)
    pace.go_on(Path("run-0"), 0.9, 9.0)
    pace.begin_anew(Path("run-0"))
    assert (pace.done, pace.left(9.0)) == (0.0, None)
    pace.go_on(Path("run-1"), 0.0, 9.0)
    pace.end(Path("run-1"), 19.0)
    assert pace.left(19.0) == pytest.approx(10.0 * 19 / 10)  # half of the time was lost, and may be again


def test_nothing_is_left_when_all_have_ended() -> None:
    pace = Pace(jobs(QUICK))
    pace.go_on(Path("run-0"), 0.0, 0.0)
    pace.end(Path("run-0"), 4.0)
    assert pace.left(4.0) is None


def test_members_of_an_ensemble_and_second_passes_are_work() -> None:
    methods = ("sgd", "sam", "deep:members=5 + sgd")
    one, two, five = (sum(Pace(jobs(QUICK, method=method)).work.values()) for method in methods)
    assert (two / one, five / one) == (2.0, 5.0)
