"""The budget: every tracker measures when it is due, unless it has used its share of the training time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from surefoot.errors import DivergedError, InputError
from surefoot.experiment import run
from surefoot.moment import Horizon, Moment
from surefoot.schema import Splits, Tracking
from surefoot.studies.compare import make_spec
from surefoot.trackers import Scheduled, read_track
from surefoot.training.panel import Panel
from tests.trackers.test_contract import weights


class Clock:
    """Time that passes when we say so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Costly(Scheduled):
    """Takes its time."""

    def __init__(self, horizon: Horizon, clock: Clock, *, every: int, cost: float) -> None:
        super().__init__(horizon, every=every)
        self.cost, self._clock = cost, clock

    def measure(self, moment: Moment) -> dict[str, float]:
        self._clock.now += self.cost
        return {"costly/value": 1.0}


def simulate(
    splits: Splits, n_steps: int, budget: float | None, *, restart_at: int | None = None, **plans: tuple[int, float]
) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Train at one second per step; return who measured when, and who was skipped when."""
    clock, model = Clock(), nn.Linear(1, 1)
    horizon = Horizon(n_steps, 10)
    trackers = {name: Costly(horizon, clock, every=every, cost=cost) for name, (every, cost) in plans.items()}
    panel = Panel(trackers, budget, clock=clock)
    measured: dict[str, list[int]] = {name: [] for name in plans}
    skipped: dict[str, list[int]] = {name: [] for name in plans}
    for step in range(n_steps + 1):
        clock.now += step > 0
        for name, values in panel.measure(Moment(step, 0, model, splits)):
            (skipped if "skipped" in values else measured)[name].append(step)
        if step == restart_at:
            state = panel.state_dict()
            clock.now += 1000  # the night between two sessions is not training
            panel = Panel(trackers, budget, clock=clock)
            panel.load_state_dict(state)
    return measured, skipped


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.3])
def test_no_tracker_takes_more_than_its_share_and_one_measurement(budget: float, small_splits: Splits) -> None:
    plans = {"a": (1, 0.5), "b": (10, 4.0), "c": (50, 9.0), "huge": (10, 600.0)}
    measured, skipped = simulate(small_splits, 2000, budget, **plans)
    share = budget / len(plans) * 2000
    for name, (every, cost) in plans.items():
        wanted = cost * (2000 // every + 1)
        spent = cost * len(measured[name])
        assert min(share, wanted) - cost * every / 10 <= spent <= share + cost, name
        assert sorted(measured[name] + skipped[name]) == list(range(0, 2001, every))  # what was not measured is said
    assert measured["huge"] == [0]


def test_what_is_cheap_enough_keeps_its_own_schedule(small_splits: Splits) -> None:
    measured, skipped = simulate(small_splits, 500, 0.1, a=(10, 0.1))
    assert measured["a"] == list(range(0, 501, 10))
    assert skipped["a"] == []


def test_without_a_budget_everything_is_measured(small_splits: Splits) -> None:
    measured, skipped = simulate(small_splits, 95, None, a=(10, 500.0))
    assert measured["a"] == [*range(0, 95, 10), 95]
    assert skipped["a"] == []


def test_a_night_in_between_changes_nothing(small_splits: Splits) -> None:
    plans = {"a": (10, 4.0), "b": (100, 12.0)}
    assert simulate(small_splits, 1000, 0.1, restart_at=60, **plans) == simulate(small_splits, 1000, 0.1, **plans)


def test_under_a_budget_the_training_is_the_same_and_skips_are_recorded(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("csam", data=f"npz:{small_npz}", model="mlp:width=8", epochs=6, batch_size=16)
    plain = weights(run(spec, tmp_path / "plain"))
    tracking = Tracking(read_track("standard"), 1e-6)
    folder = run(spec, tmp_path / "tracked", tracking=tracking)
    tracked = weights(folder)
    assert all(torch.equal(plain[key], tracked[key]) for key in plain)
    assert folder.tracking == tracking
    done = folder.done()
    assert done is not None
    assert done["tracking_seconds"] > 0
    records = [record for record in folder.tracked() if record["tracker"] == "gn_sharpness"]
    assert [record["step"] for record in records if "gn_sharpness/value" in record] == [0]
    assert [record["step"] for record in records if record.get("skipped") == "budget"] == [10, 20, 30, 36]


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def due(self, step: int) -> bool:
        return True

    def measure(self, moment: Moment) -> dict[str, float]:
        raise self.error


def test_a_quantity_that_does_not_exist_is_said_and_divergence_is_raised(small_splits: Splits) -> None:
    moment = Moment(0, 0, nn.Linear(1, 1), small_splits)
    panel = Panel({"broken": Broken(InputError("no gradient"))})
    assert list(panel.measure(moment)) == [("broken", {"failed": "no gradient"})]
    with pytest.raises(DivergedError):
        list(Panel({"broken": Broken(DivergedError("nan"))}).measure(moment))
