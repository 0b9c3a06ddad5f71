"""Runs are taken over from files of results where all studies that read them hold them, with what each kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.records import RunFolder
from surefoot.schema import Predictions, SplitName, Tracking
from surefoot.statistics import difference
from surefoot.studies.contract import Analysis, Finding, Study, Table, Verdict
from surefoot.studies.results import SavedResult, load_result, write_result
from surefoot.studies.reuse import merged, take_over, unpack
from surefoot.studies.runner import Plan, Result
from surefoot.studies.runs import Runs
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


def predicting(folder: Path, seed: int) -> RunFolder:
    """A finished run that has its predictions."""
    run = fake_run(folder, "sgd", seed)
    logits = np.random.default_rng(seed).normal(size=(10, 2)).astype(np.float32)
    splits: tuple[SplitName, ...] = ("train", "calibration", "test")
    for split in splits:
        run.write_predictions(Predictions(logits, np.arange(10) % 2, split, class_names=("cat", "dog")))
    return run


def test_every_run_keeps_what_was_read_of_any_for_another_setting_may_be_chosen_later(tmp_path: Path) -> None:
    settings = {f"sgd · {name}": {0: predicting(tmp_path / name, seed)} for seed, name in enumerate("ab")}

    def analyse(runs: Runs) -> Analysis:
        runs.compute("sgd · a", "mean logit", lambda run: float(run.predictions("test").logits.mean()))
        found = runs.tuned().measure("sgd", "debiased_ece")
        return Analysis(Table((), ()), {"ece": difference(found, found)})

    study = Study(
        question="?", rule="none", grid=lambda size: {}, analyse=analyse, judge=lambda _: Finding("open", ".")
    )
    runs = Runs(settings)
    result = Result(Plan("a1", study, "smoke", {}), runs, analyse(runs), Verdict("underpowered", "."))
    held = load_result(write_result(result, tmp_path / "results", "surefoot study a1")).runs
    keys = {name: {(each["split"], each["metric"]) for each in run["measures"]} for name, run in held.items()}
    assert len(keys) == 2
    assert all(("test", "debiased_ece") in each for each in keys.values())
    first = settings["sgd · a"][0]
    taken = unpack(held[first.path.name], tmp_path / "taken")
    mean = float(first.predictions("test").logits.mean())
    assert Runs({"sgd": {0: taken}}).compute("sgd", "mean logit", _never) == {0: pytest.approx(mean)}


def _never(run: RunFolder) -> float:
    raise AssertionError(f"{run} holds it")


def test_what_a_run_without_predictions_does_not_hold_is_an_error_not_a_seed_less(tmp_path: Path) -> None:
    runs = Runs({"sgd": {0: fake_run(tmp_path, "sgd", 0)}})
    assert runs.measure("sgd", "ece") == {0: 0.05}
    with pytest.raises(InputError, match=r"to hold debiased_ece, but it was taken over without it.*drop --reuse"):
        runs.measure("sgd", "debiased_ece")
    with pytest.raises(InputError, match="to hold mean logit, but"):
        runs.compute("sgd", "mean logit", _never)
