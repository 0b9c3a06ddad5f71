from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.errors import DivergedError, InputError
from surefoot.experiment import folder_name
from surefoot.settings import Placement
from surefoot.studies.compare import compare, make_spec, plan
from surefoot.studies.engine import News


def small(method: str, small_npz: Path, **settings: object):
    return make_spec(method, data=f"npz:{small_npz}", epochs=2, batch_size=16, **settings)


def test_runs_are_made_once_and_one_failure_does_not_stop_the_others(small_npz: Path, tmp_path: Path) -> None:
    specs = [small("sgd", small_npz), small("sgd:lr=1e30", small_npz), small("csam", small_npz)]
    heard: list[News] = []
    jobs = plan(specs, [0, 1], tmp_path)
    first = compare(jobs, placement=Placement(jobs=2), listen=heard.append)
    assert [run.spec.method.label for run in first.runs] == ["sgd", "sgd", "csam", "csam"]
    assert [type(error) for error in first.failed.values()] == [DivergedError] * 2
    assert sum(news.done for news in heard) == 4
    stamps = [(run.path / "done.json").stat().st_mtime_ns for run in first.runs]
    second = compare([job for job in jobs if job.path not in first.failed], placement=Placement(jobs=1))
    assert [(run.path / "done.json").stat().st_mtime_ns for run in second.runs] == stamps


def test_the_same_method_twice_is_one_run(small_npz: Path, tmp_path: Path) -> None:
    specs = [small("csam", small_npz), small("csam:gamma=1", small_npz)]
    jobs = plan(specs, [0], tmp_path)
    assert len({folder_name(spec).rpartition("-")[2] for spec in specs}) == 1
    assert len(jobs) == 1


def test_specs_are_checked_before_anything_runs(small_npz: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one method"):
        plan([], [0], tmp_path)
    with pytest.raises(InputError, match="Expected width ≥ 1"):
        plan([small("sgd", small_npz), small("sgd", small_npz, model="mlp:width=0")], [0], tmp_path)
    assert list(tmp_path.iterdir()) == []
