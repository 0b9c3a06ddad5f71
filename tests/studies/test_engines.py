"""Runs that fail, workers that are killed: nothing is lost and nothing is made twice."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from surefoot.api import find_place
from surefoot.errors import InputError, RunError
from surefoot.experiment import run
from surefoot.records import RunFolder
from surefoot.records.remote import download, finished_at, upload
from surefoot.schema import Tracking
from surefoot.settings import Placement
from surefoot.studies.compare import make_spec, plan
from surefoot.studies.contract import Arm, Study
from surefoot.studies.engine import Job, News, run_all
from surefoot.studies.runner import plan_studies
from tests.runs import content
from tests.studies.gate import gated, put_tickets, who_is_there


def jobs_on(small_npz: Path, out: Path, n: int = 3, *, gate: Path | None = None, store: str | None = None) -> list[Job]:
    method = "sgd" if gate is None else f"tests.studies.gate:waiting:folder={gate} + sgd"
    spec = make_spec(method, data=f"npz:{small_npz}", model="mlp:width=8", epochs=3, batch_size=16)
    return [dataclasses.replace(job, checkpoint_every=0.0) for job in plan([spec], range(n), out, store=store)]


def test_checkpoints_are_kept_where_they_are_asked_for(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=3, batch_size=16)
    (job,) = plan([spec], [0], tmp_path, keep_every=1)
    assert run_all([job], placement=Placement(jobs=1)) == {}
    assert sorted(path.name for path in (job.path / "checkpoint").glob("step-*")) == [
        "step-00000006",
        "step-00000012",
        "step-00000018",
    ]


def writer_of(folder: Path) -> int | None:
    """Find the process that holds the folder's lock."""
    lock = folder / ".lock"
    if not lock.exists():
        return None
    inode = str(lock.stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if "FLOCK" in words and words[5].rpartition(":")[2] == inode:
            return int(words[4])
    return None


@contextmanager
def killing_one(gate: Path, folders: Sequence[Path]) -> Iterator[list[Path]]:
    """SIGKILL the one run that stops at the gate, in a thread, and say which it was where its folder shows it."""
    put_tickets(gate, 1)
    hit: list[Path] = []
    over = threading.Event()

    def kill() -> None:
        for writer in who_is_there(gate, 1, over.is_set):
            hit.extend(folder for folder in folders if writer_of(folder) == writer)
            os.kill(writer, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield hit
    finally:
        over.set()
        killer.join()


def check_all_done_once(jobs: list[Job], heard: list[News], tmp_path: Path) -> None:
    done = [news.job.path for news in heard if news.done]
    assert sorted(done) == sorted(job.path for job in jobs)
    for job in jobs:
        run(job.spec, tmp_path / "whole" / job.path.name)
        assert content(job.path) == content(tmp_path / "whole" / job.path.name)


def test_a_killed_worker_takes_no_other_run_with_it(small_npz: Path, tmp_path: Path) -> None:
    jobs = jobs_on(small_npz, tmp_path / "runs", gate=tmp_path / "gate")
    heard: list[News] = []
    with killing_one(tmp_path / "gate", [job.path for job in jobs]) as hit:
        failed = run_all(jobs, placement=Placement(jobs=2), listen=heard.append)
    assert failed == {}
    again = [news for news in heard if news.again]
    assert [news.job.path for news in again] == hit
    assert "it was killed" in str(again[0].error)
    check_all_done_once(jobs, heard, tmp_path)


def test_a_run_that_keeps_failing_is_tried_twice_and_reported(small_npz: Path, tmp_path: Path) -> None:
    jobs = jobs_on(small_npz, tmp_path / "runs", 2)
    jobs[0].path.parent.mkdir(parents=True)
    jobs[0].path.write_text("in the way")  # a file where the folder should be
    heard: list[News] = []
    failed = run_all(jobs, placement=Placement(jobs=1), listen=heard.append)
    assert list(failed) == [jobs[0].path]
    assert isinstance(failed[jobs[0].path], RunError)
    assert [news.again for news in heard if news.error] == [True, False]
    assert RunFolder(jobs[1].path).done() is not None


def test_a_run_goes_through_an_address_and_back(small_npz: Path, tmp_path: Path) -> None:
    job = jobs_on(small_npz, tmp_path / "runs", 1)[0]
    run(job.spec, job.path)
    address = f"file://{tmp_path}/store/one"
    assert not download(address, tmp_path / "back")
    upload(job.path, address)
    upload(job.path, address)
    assert download(address, tmp_path / "back")
    assert content(tmp_path / "back") == content(job.path)


def test_runs_at_an_address_are_found_there_and_sent_there(small_npz: Path, tmp_path: Path) -> None:
    """Made in one folder, found from another one; and sent if whoever made them was stopped before."""
    store = f"file://{tmp_path}/store"
    jobs = jobs_on(small_npz, tmp_path / "here", 1, store=store)
    run(jobs[0].spec, jobs[0].path)
    assert finished_at(store) == set()
    assert run_all(jobs, placement=Placement(jobs=1)) == {}
    assert finished_at(store) == {jobs[0].path.name}
    there = jobs_on(small_npz, tmp_path / "there", 1, store=store)
    heard: list[News] = []
    assert run_all(there, placement=Placement(jobs=1), listen=heard.append) == {}
    assert [news.step for news in heard] == [0]  # nothing was trained
    assert content(there[0].path) == content(jobs[0].path)


def test_a_run_that_is_not_finished_is_no_finished_one_at_its_address(small_npz: Path, tmp_path: Path) -> None:
    job = jobs_on(small_npz, tmp_path / "runs", 1)[0]
    address = f"file://{tmp_path}/store/one"

    def stop(step: int, n_steps: int, loss: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(job.spec, job.path, checkpoint_every=0, on_progress=stop)
    upload(job.path, address)
    assert finished_at(f"file://{tmp_path}/store") == set()
    assert download(address, tmp_path / "back")
    run(job.spec, job.path)
    upload(job.path, address)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["one.tar"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"engine": "rya"}, "Expected --engine to be local or ray, but got 'rya'"),
        ({"address": "auto"}, "Expected --address with --engine ray, but the engine is local. Add --engine ray"),
        ({"gpus_per_run": 1}, "Expected --gpus-per-run with --engine ray"),
        ({"engine": "ray", "cpus_per_run": -1.0}, "Expected --cpus-per-run to be at least 0, but got -1.0"),
        ({"jobs": 0}, "Expected --jobs to be at least 1, but got 0"),
        ({"store": "/mnt/runs"}, "Expected --store to be an address, but got '/mnt/runs'"),
    ],
)
def test_placements_that_contradict_themselves_are_refused(words: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Placement(**words)


def test_an_address_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"Expected to reach file:.*, but it fails \(.*Check the address"):
        find_place(f"file://{tmp_path}/file/runs", Placement())
    with pytest.raises(InputError, match="Expected an address that fsspec can reach, but got nosuch://bucket"):
        find_place("nosuch://bucket", Placement())


def test_trackings_are_joined() -> None:
    a, b = Tracking(("x", "y")), Tracking(("y", "z"))
    assert a.joined(b) == Tracking(("x", "y", "z"))
    assert Tracking().joined(Tracking(("x",), 0.1)) == Tracking(("x",), 0.1)
    assert a.joined(b).covers(a)
    assert a.joined(b).covers(b)


def test_a_tracker_is_there_once_and_two_ways_to_ask_for_it_clash() -> None:
    few, many = Tracking(("quality:examples=500", "tce")), Tracking(("quality:examples=5000",))
    assert few.joined(many) == Tracking(("quality:examples=5000", "tce"))
    assert few.clashes(many) == ["quality:examples=5000"]
    assert few.clashes(few.joined(Tracking(("kappa",)))) == []


def test_studies_that_want_different_things_of_a_run_are_told(tmp_path: Path) -> None:
    spec = make_spec("sgd", data="digits", model="mlp:width=8", epochs=1, batch_size=100)

    def asking(tracker: str) -> Study:
        arm = Arm(spec, Tracking((tracker,)))
        return dataclasses.replace(gated(), grid=lambda size: {"sgd": arm})

    studies = {"one": asking("quality:examples=50"), "other": asking("quality:examples=60")}
    with pytest.raises(InputError, match="other asks for quality:examples=60 and another one with other options"):
        plan_studies(studies, "smoke", tmp_path)
