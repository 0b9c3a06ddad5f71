"""Studies that measure on shifted pictures: measured where the run was made, once, and kept with its results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surefoot.data import load_splits
from surefoot.records import RunFolder
from surefoot.registry import DATA
from surefoot.schema import Tracking
from surefoot.settings import Placement
from surefoot.studies import _data
from surefoot.studies._plain import run_to_json
from surefoot.studies._shifted import Shift
from surefoot.studies.claims.c02_against_temperature import ROWS
from surefoot.studies.compare import make_spec
from surefoot.studies.contract import Analysis, Arm, Estimate, Finding, Size, Study, Table
from surefoot.studies.runner import judge, plan_studies, run_studies
from surefoot.studies.runs import Runs

FIRST = Shift(("impulse_noise",), (1, 5), n=40)
MORE = Shift(("impulse_noise", "fog"), (5,), ("uniform",), n=40)


def study(shift: Shift | None) -> Study:
    def grid(size: Size) -> dict[str, Arm]:
        spec = make_spec("sgd", data="digits", model="mlp:width=8", epochs=1, batch_size=100)
        return {"sgd": Arm(spec, shift=shift)}

    def analyse(runs: Runs) -> Analysis:
        return Analysis(Table((), ()), {})

    def judge(numbers: Mapping[str, Estimate]) -> Finding:
        return Finding("open", "nothing is asked")

    return Study(question="Is it?", rule="Held if it is.", grid=grid, analyse=analyse, judge=judge)


def tracked_study() -> Study:
    """The same run, with its margins followed."""
    plain = study(None)
    return replace(
        plain,
        grid=lambda size: {
            name: replace(arm, tracking=Tracking(("margins:every=100",))) for name, arm in plain.grid(size).items()
        },
    )


def made(out: Path, **shifts: Shift | None) -> Runs:
    plans, jobs = plan_studies({name: study(shift) for name, shift in shifts.items()}, "smoke", out)
    assert len(jobs) == 1
    results = run_studies(plans, jobs, placement=Placement(jobs=1))
    assert jobs[0].is_done
    return results[0].runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A run that two studies ask different things of, after a study that asked for nothing."""
    out = tmp_path_factory.mktemp("shifted")
    trained = made(out, plain=None)["sgd"][0]
    done = (trained.path / "done.json").stat().st_mtime_ns
    assert trained.shift() == []
    found = made(out, first=FIRST, more=MORE)
    assert (trained.path / "done.json").stat().st_mtime_ns == done  # not trained again
    return found


def test_one_run_is_measured_for_all_studies_once(runs: Runs) -> None:
    records = runs["sgd"][0].shift()
    places = [(record["corruption"], record["severity"], record["ood"]) for record in records]
    assert sorted(places, key=str) == sorted(
        [(None, 0, None), *FIRST.places, ("fog", 5, None), (None, 0, "uniform")], key=str
    )


def test_a_run_that_another_study_made_is_not_judged_before_it_has_measured_what_is_asked(runs: Runs) -> None:
    """Finished is not enough: one that lacks the pictures or the quantity of a study is still to be made for it."""
    out = runs["sgd"][0].path.parent
    asked = {"first": study(FIRST), "others": study(replace(FIRST, severities=(2,))), "tracked": tracked_study()}
    plans, _ = plan_studies(asked, "smoke", out)
    assert [len(judge(plan).missing()) for plan in plans] == [0, 1, 1]


def test_means_are_those_of_the_records(runs: Runs) -> None:
    by_place = {(r["corruption"], r["severity"], r["ood"]): r for r in runs["sgd"][0].shift()}
    noisy = [by_place["impulse_noise", severity, None] for severity in (1, 5)]
    assert runs.shifted("sgd", "ece") == {0: statistics.fmean(record["ece"] for record in noisy)}
    assert runs.shifted("sgd", "accuracy", severity=5) == {0: noisy[1]["accuracy"]}
    other = by_place[None, 0, "uniform"]["detection"]["max_probability"]["auroc"]
    assert runs.shifted("sgd", "auroc", ood="uniform") == {0: other}


def test_nothing_is_said_where_something_is_missing(runs: Runs) -> None:
    run = runs["sgd"][0]
    assert FIRST.is_measured(run)
    for missing in (replace(FIRST, severities=(1, 2)), replace(FIRST, n=41), Shift(ood=("shuffled",), n=40)):
        assert not missing.is_measured(run)
        assert missing.mean(run, "auroc") is None
    assert MORE.part(ood="uniform").mean(run, "ece") is None  # they have no right answer
    assert not FIRST.is_measured(RunFolder(run.path / "nowhere"))


def test_results_keep_what_was_measured(runs: Runs) -> None:
    run = runs["sgd"][0]
    assert run_to_json(run)["shift"] == []
    kept = run_to_json(run, shift=MORE)["shift"]
    wanted = [record for record in run.shift() if record["severity"] in (None, 0, 5)]  # not what FIRST alone asked for
    assert 4 == len(kept) == len(wanted) < len(run.shift())
    for record, whole in zip(kept, wanted, strict=True):
        if whole["detection"]:
            assert record["detection"]["energy"]["auroc"] == pytest.approx(whole["detection"]["energy"]["auroc"], 1e-7)


def test_there_are_as_many_held_out_rows_as_temperatures_are_fitted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dividing class by class rounds down: a fifth of the 20,000 published rows that are there was 3,999."""
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {}
    for split, n in (("train", 20_000), ("test", 1000)):
        arrays |= {f"x_{split}": np.zeros((n, 32, 32, 3), np.uint8), f"y_{split}": rng.integers(0, 10, n)}
    np.savez_compressed(tmp_path / "cifar10.npz", **arrays)
    monkeypatch.setenv("SUREFOOT_DATA", str(tmp_path))
    data = _data.coloured("laptop", keep_test=True)
    assert "cifar10" in data
    splits = load_splits(DATA.parse(data.format(seed=3)))
    assert len(splits.calibration) >= max(ROWS)
    assert (len(splits.train), len(splits.test)) == (5000, 1000)
