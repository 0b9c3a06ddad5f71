"""The budget: spent to the share that was asked for, by schedules that are stretched alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch import nn

from surefoot.errors import DivergedError, InputError
from surefoot.experiment import run
from surefoot.schema import Moment, Splits, Tracking
from surefoot.studies.compare import make_spec
from surefoot.trackers import read_track
from surefoot.train.panel import Panel
from surefoot.train.tracker import Every, Horizon
from tests.trackers.test_contract import weights


class Clock:
    """Time that passes when we say so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Costly:
    """Takes its time, up to a third more or less."""

    def __init__(self, name: str, every: int, cost: float, clock: Clock, end: int) -> None:
        self.name, self.cost, self._clock, self._draw = name, cost, clock, random.Random(name)
        self.due = Every(every, end=end)
        self.steps: list[int] = []

    def measure(self, moment: Moment) -> dict[str, float]:
        self._clock.now += self.cost * self._draw.uniform(0.67, 1.33)
        self.steps.append(moment.step)
        return {"costly/value": 1.0}


def simulate(
    splits: Splits, n_steps: int, budget: float | None, *plans: tuple[str, int, float], restart_at: int | None = None
) -> tuple[float, dict[str, list[int]]]:
    """A training of one second per step; gives the share spent and who measured when."""
    clock, model = Clock(), nn.Linear(1, 1)
    trackers = [Costly(*plan, clock, n_steps) for plan in plans]
    panel = Panel(trackers, Horizon(n_steps, 10), budget, clock=clock)
    draw = random.Random(0)
    trained = spent = 0.0
    for step in range(n_steps + 1):
        if step:
            seconds = draw.uniform(0.8, 1.2)
            trained += seconds
            clock.now += seconds
        list(panel.look(Moment(step, 0, model, splits)))
        spent += panel.take_seconds()
        if step == restart_at:
            state = panel.state_dict()
            clock.now += 1000  # the night between two sessions is not training
            panel = Panel(trackers, Horizon(n_steps, 10), budget, clock=clock)
            panel.load_state_dict(state)
    return spent / trained, {tracker.name: tracker.steps for tracker in trackers}


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.3])
@pytest.mark.parametrize(
    "plans",
    [
        [("a", 10, 5.0)],
        [("a", 10, 4.0), ("b", 100, 12.0)],
        [("a", 1, 0.5), ("b", 10, 0.05), ("c", 50, 9.0)],
        [("a", 32, 14.0), ("b", 10, 8.0), ("c", 32, 3.0)],
    ],
)
def test_the_share_is_spent(budget: float, plans: list[tuple[str, int, float]], small_splits: Splits) -> None:
    share, steps = simulate(small_splits, 2000, budget, *plans)
    assert budget - 0.03 <= share <= budget + 0.03
    assert all(seen[-1] == 2000 for seen in steps.values())  # the end is always seen
    assert all(step % every == 0 or step == 2000 for name, every, _ in plans for step in steps[name])


def test_all_schedules_are_stretched_alike(small_splits: Splits) -> None:
    _, steps = simulate(small_splits, 6000, 0.1, ("often", 5, 2.0), ("seldom", 50, 5.0))
    assert 7 < len(steps["often"]) / len(steps["seldom"]) < 13  # ten to one, as without a budget


def test_what_can_never_be_paid_for_does_not_keep_the_others_from_measuring(small_splits: Splits) -> None:
    share, steps = simulate(small_splits, 1000, 0.1, ("a", 10, 2.0), ("huge", 10, 300.0))
    assert len(steps["huge"]) == 1  # to find out what it costs
    assert share < 0.5
    share, steps = simulate(small_splits, 8000, 0.1, ("a", 10, 2.0), ("huge", 10, 600.0))
    assert len(steps["huge"]) == 1
    assert steps["a"][-1] == 8000
    assert share < 0.13


def test_what_is_cheap_enough_keeps_its_own_schedule(small_splits: Splits) -> None:
    _, steps = simulate(small_splits, 500, 0.1, ("a", 10, 0.1))
    assert steps["a"] == list(range(0, 501, 10))


def test_trackers_of_one_group_measure_together(small_splits: Splits) -> None:
    clock, model = Clock(), nn.Linear(1, 1)
    pair = [Costly(name, 10, 4.0, clock, 1000) for name in ("a", "b")]
    for tracker in pair:
        tracker.group = "logits"
    alone = Costly("c", 10, 4.0, clock, 1000)
    panel = Panel([pair[0], alone, pair[1]], Horizon(1000, 10), 0.1, clock=clock)
    spent = 0.0
    for step in range(1001):
        clock.now += step > 0
        list(panel.look(Moment(step, 0, model, small_splits)))
        spent += panel.take_seconds()
    assert pair[0].steps == pair[1].steps != alone.steps
    assert 70 <= spent <= 130


def test_a_night_in_between_changes_nothing(small_splits: Splits) -> None:
    plans = [("a", 10, 4.0), ("b", 100, 12.0)]
    share, steps = simulate(small_splits, 1000, 0.1, *plans, restart_at=500)
    assert (pytest.approx(share), steps) == simulate(small_splits, 1000, 0.1, *plans)


def test_under_a_budget_the_training_is_the_same(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("csam", data=f"npz:{small_npz}", model="mlp:width=8", epochs=6, batch_size=16)
    plain = weights(run(spec, tmp_path / "plain"))
    tracking = Tracking(read_track("standard"), 0.1)
    folder = run(spec, tmp_path / "tracked", tracking=tracking)
    tracked = weights(folder)
    assert all(torch.equal(plain[key], tracked[key]) for key in plain)
    assert folder.tracking == tracking
    done = folder.done()
    assert done is not None
    assert done["tracking_seconds"] > 0


class Broken:
    name = "broken"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def due(self, step: int) -> bool:
        return True

    def measure(self, moment: Moment) -> dict[str, float]:
        raise self.error


def test_a_quantity_that_does_not_exist_is_said_and_divergence_is_raised(small_splits: Splits) -> None:
    moment = Moment(0, 0, nn.Linear(1, 1), small_splits)
    assert list(Panel([Broken(InputError("no gradient"))]).look(moment)) == [("broken", {"failed": "no gradient"})]
    with pytest.raises(DivergedError):
        list(Panel([Broken(DivergedError("nan"))]).look(moment))
