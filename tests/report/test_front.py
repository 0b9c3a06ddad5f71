"""What calibration costs: points of the front, from numbers that are known."""

from __future__ import annotations

from typing import Any

import pytest

from surefoot.evaluate import Record
from surefoot.method import parse_method
from surefoot.records import RunFolder
from surefoot.registry import FIGURES
from surefoot.report.paper.front import _by_method, _points, front
from surefoot.schema import PartSpec, RunSpec


class Made(RunFolder):
    """A run that is nowhere on disk."""

    def __init__(self, method: str, task: str, seed: int, passes: float, ece: float, epochs: int, held: float) -> None:
        data = PartSpec("redivided", {"of": task, "seed": seed})
        self._made = RunSpec(parse_method(method), data, PartSpec("mlp"), seed=seed, epochs=epochs)
        self._passes, self._ece, self._held = passes, ece, held

    @property
    def spec(self) -> RunSpec:
        return self._made

    def done(self) -> dict[str, Any]:
        return {"passes": self._passes}

    def has_predictions(self, split: str) -> bool:
        return False

    def measures(self) -> list[Record]:
        test = {"ece": self._ece, "nll": 2 * self._ece, "accuracy": 1 - self._ece}
        found = [{"split": "test", "metric": k, "calibrator": None, "value": v, "unit": ""} for k, v in test.items()]
        found += [
            {"split": "test", "metric": k, "calibrator": "temperature", "value": 0.01, "unit": ""}
            for k in ("ece", "nll")
        ]
        return [
            *found,
            {"split": "calibration", "metric": "ece", "calibrator": None, "value": self._held, "unit": ""},
        ]


def runs() -> list[RunFolder]:
    made: list[RunFolder] = []
    for task, base, scale in (("fashion", "sgd", 1.0), ("digits", "adamw", 3.0)):
        for seed in (0, 1):
            made += [
                Made(base, task, seed, 100 * scale, 0.1 * scale, 4, 0.5),
                Made(base, task, seed, 200 * scale, 0.12 * scale, 8, 0.5),
                Made(f"csam:tune=auto,base={base}", task, seed, 200 * scale, 0.02 * scale, 4, 0.5),
                # Of the sweep, the first is better on calibration and worse on test: it is the one that is chosen.
                Made(f"csam:rho=0.1,gamma=1.0,base={base}", task, seed, 200 * scale, 0.08 * scale, 4, 0.1),
                Made(f"csam:rho=0.2,gamma=1.0,base={base}", task, seed, 200 * scale, 0.03 * scale, 4, 0.2),
            ]
    return made


def test_points_are_means_over_tasks_and_seeds() -> None:
    by_method = _by_method(runs())
    assert set(by_method) == {
        *("base", "base, 2 × the epochs", "csam:tune=auto", "csam:rho=0.1,gamma=1.0", "csam:rho=0.2,gamma=1.0"),
    }
    every = set(by_method["base"])
    assert len(every) == 4
    points, best = _points(by_method, every)
    found = {point.label: (point.cost, point.values["ece"]) for point in points}
    assert found == {
        "base": (1.0, pytest.approx(0.2)),
        "base, 2 × the epochs": (2.0, pytest.approx(0.24)),
        "csam:tune=auto": (2.0, pytest.approx(0.04)),
        "base, temperature behind it": (1.0, pytest.approx(0.01)),
    }
    assert best is not None
    assert (best.label, best.cost, best.values["ece"]) == ("best of 2 settings", 4.0, pytest.approx(0.16))


def test_only_what_all_methods_share_is_compared() -> None:
    some = runs()
    by_method = _by_method(some[:-4])  # the last task has its base alone
    assert len(set.intersection(*map(set, by_method.values()))) == 3
    assert front(some[:1]) is None
    assert front([]) is None


def test_it_is_drawn() -> None:
    figure = FIGURES.build(FIGURES.parse("front"), runs())
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "best of 2 settings, 4 passes"
    assert len(names) == 5
    assert figure.get_suptitle() == "tasks: 2, seeds: 2"
