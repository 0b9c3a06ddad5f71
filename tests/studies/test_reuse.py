"""Runs are taken over from files of results where all studies that read them hold them, with what each kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.schema import Tracking
from surefoot.studies.results import SavedResult
from surefoot.studies.reuse import merged, take_over
from tests.runs import fake_run

PLACE = {"n": 5, "corruption": "fog", "severity": 1, "ood": None, "published": None}
SHIFTED = {**PLACE, "accuracy": None, "ece": None, "nll": None, "detection": None}


def kept(path: Path, metric: str, quantity: str, *trackers: str) -> dict[str, Any]:
    """What a study keeps of a run: one measure, one tracked quantity."""
    run = fake_run(path, "sgd", 0)
    return {
        "run": run.run_id,
        "spec": run.spec.to_json(),
        "data": run.data,
        "tracking": {"trackers": list(trackers), "budget": None},
        "done": {"passes": 7, "steps": 7},
        "tracked": [{"step": 0, "tracker": "quality", quantity: 0.5}],
        "measures": [{"split": "test", "metric": metric, "calibrator": None, "value": 0.1}],
        "shift": [{**SHIFTED, metric: 0.2}],
    }


def saved(**runs: dict[str, Any]) -> SavedResult:
    return SavedResult({"cost": {"seconds": 10.0, "runs": 2}, "environment": {"surefoot": "0"}}, runs)


def test_a_run_has_what_each_study_kept_of_it(tmp_path: Path) -> None:
    one = kept(tmp_path / "a", "ece", "test/ece", "quality")
    other = kept(tmp_path / "b", "nll", "test/loss", "quality", "margins")
    results = {"a1": saved(r=one), "a2": saved(r=other)}
    (run,) = take_over({"r": ["a1", "a2"]}, results, tmp_path / "runs")
    assert {record["metric"] for record in run.measures()} == {"ece", "nll"}
    assert run.tracked() == [{"step": 0, "tracker": "quality", "test/ece": 0.5, "test/loss": 0.5}]
    assert run.shift() == [{**SHIFTED, "ece": 0.2}, {**SHIFTED, "nll": 0.2}]
    assert run.tracking == Tracking(("quality", "margins"))
    assert run.done() == {"seconds": 5.0, "passes": 7, "steps": 7}
    assert merged([one]) == {**one, "tracking": {"trackers": ["quality"], "budget": None}}


def test_a_run_that_one_of_its_readers_does_not_hold_is_made_anew(tmp_path: Path) -> None:
    one = kept(tmp_path / "a", "ece", "test/ece", "quality")
    results = {"a1": saved(r=one, s=one), "a2": saved(s=one)}
    made = take_over({"r": ["a1", "a2"], "s": ["a1", "a2"], "t": ["a3"]}, results, tmp_path / "runs")
    assert [run.path.name for run in made] == ["s"]


def test_a_run_that_is_there_already_stays(tmp_path: Path) -> None:
    (tmp_path / "runs" / "r").mkdir(parents=True)
    results = {"a1": saved(r=kept(tmp_path / "a", "ece", "test/ece"))}
    assert take_over({"r": ["a1"]}, results, tmp_path / "runs") == []
    assert list((tmp_path / "runs" / "r").iterdir()) == []
