"""Means, paired differences and the verdict, on run folders made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from surefoot.metrics import describe
from surefoot.records import RunFolder
from surefoot.registry import METRICS
from surefoot.report.measures import Measure
from surefoot.report.quantities import QUANTITIES
from surefoot.report.summary import summarise
from tests.runs import fake_run

ECES = {"sgd": (0.10, 0.12, 0.11), "sam": (0.05, 0.05, 0.05)}


def _runs(tmp_path: Path, eces: dict[str, tuple[float, ...]] = ECES) -> list[RunFolder]:
    return [
        fake_run(tmp_path, method, seed, measures={"accuracy": 0.8, "ece": ece})
        for method, values in eces.items()
        for seed, ece in enumerate(values)
    ]


def test_means_and_standard_deviations_are_over_seeds(tmp_path: Path) -> None:
    first, second = summarise(_runs(tmp_path)).rows
    assert first.values["ece"].mean == pytest.approx(0.11)
    assert first.values["ece"].sd == pytest.approx(0.01)  # of 10, 12, 11 with n − 1
    assert (first.values["ece"].n, first.seeds) == (3, (0, 1, 2))
    assert second.values["ece"].sd == pytest.approx(0.0)


def test_differences_are_paired_by_seed(tmp_path: Path) -> None:
    runs = _runs(tmp_path)
    gap = summarise([*runs[:3], *reversed(runs[3:])]).rows[1].difference["ece"]
    half = 4.302652729911275 * 0.01 / math.sqrt(3)  # Student's t with 2 degrees of freedom; differences −5, −7, −6
    assert gap.value == pytest.approx(-0.06)
    assert (gap.low, gap.high) == pytest.approx((-0.06 - half, -0.06 + half))


def test_only_shared_seeds_are_paired(tmp_path: Path) -> None:
    runs = [fake_run(tmp_path, "sgd", seed, measures={"ece": 0.1 * seed}) for seed in (1, 2)]
    runs += [fake_run(tmp_path, "sam", seed, measures={"ece": 0.1}) for seed in (2, 3)]
    gap = summarise(runs).rows[1].difference["ece"]
    assert (gap.value, gap.low, gap.n) == (pytest.approx(-0.1), None, 1)


def test_one_seed_has_neither_spread_nor_interval(tmp_path: Path) -> None:
    summary = summarise([fake_run(tmp_path, "sgd"), fake_run(tmp_path, "sam", measures={"accuracy": 0.8, "ece": 0.01})])
    assert summary.rows[0].values["ece"].sd is None
    assert summary.rows[1].difference["ece"].low is None


def test_a_metric_that_one_run_lacks_is_left_out_of_its_row_only(tmp_path: Path) -> None:
    runs = _runs(tmp_path)
    lame = fake_run(tmp_path, "sam", 2, measures={"accuracy": 0.8}, tce=None)
    first, second = summarise([*runs[:5], lame]).rows
    assert "ece" in first.values
    assert "ece" not in second.values
    assert "ece@temperature" not in second.values
    assert "accuracy" in second.values
    assert second.difference["ece"].n == 2


def test_calibration_values_stand_beside_those_on_test(tmp_path: Path) -> None:
    held_out = {"accuracy": 0.7, "ece": 0.2}
    (row,) = summarise([fake_run(tmp_path, "sgd", seed, calibration=held_out) for seed in (0, 1)]).rows
    assert (row.values["ece"].mean, row.calibration["ece"].mean, row.calibration["ece"].n) == (0.05, 0.2, 2)
    assert "ece@temperature" in row.values
    assert "ece@temperature" not in row.calibration  # the temperature was fitted there
    written = row.to_json(["accuracy", "ece"])
    assert written["calibration"]["accuracy"] == {"mean": 0.7, "sd": 0.0, "n": 2}
    assert written["ece"]["mean"] == 0.05


def test_the_star_goes_by_the_calibration_split(tmp_path: Path) -> None:
    """On the test split it would be the other one."""
    on_test, held_out = {"sgd": 0.01, "sam": 0.05}, {"sgd": 0.06, "sam": 0.04}
    rows = summarise([
        fake_run(tmp_path, m, measures={"ece": on_test[m]}, calibration={"ece": held_out[m]}) for m in on_test
    ]).rows
    assert ["ece" in row.best for row in rows] == [False, True]
    assert not any("ece@temperature" in row.best for row in rows)


@pytest.mark.parametrize(
    ("key", "values", "best"), [("ece", (0.1, 0.2), 0), ("accuracy", (0.1, 0.2), 1), ("nll", (2.0, 1.0), 1)]
)
def test_best_follows_the_direction(tmp_path: Path, key: str, values: tuple[float, float], best: int) -> None:
    rows = summarise([fake_run(tmp_path, m, measures={key: v}) for m, v in zip(("a", "b"), values, strict=True)]).rows
    assert [key in row.best for row in rows] == [best == 0, best == 1]


def test_a_single_method_is_not_the_best_of_anything(tmp_path: Path) -> None:
    summary = summarise([fake_run(tmp_path, "sgd", seed) for seed in (0, 1)])
    assert summary.rows[0].best == frozenset()


def test_the_table_of_quantities_says_what_metrics_declare() -> None:
    """Pages are made without torch, so that they cannot ask the metrics themselves."""
    metrics = [key for key in QUANTITIES if key in METRICS]
    assert {"accuracy", "ece", "nll", "brier"} <= set(metrics)
    for key in metrics:
        declared = Measure.of(key, describe(METRICS[key]))
        assert replace(declared, meaning="") == QUANTITIES[key]
