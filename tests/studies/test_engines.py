"""Runs that fail, workers that are killed: nothing is lost and nothing is made twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surefoot.errors import RunError
from surefoot.experiment import run
from surefoot.records import RunFolder
from surefoot.records.remote import download, upload
from surefoot.schema import Tracking
from surefoot.studies.compare import make_spec, plan
from surefoot.studies.engine import Job, News, run_all
from tests.runs import content


def jobs_on(small_npz: Path, out: Path, n: int = 3, *, epochs: int = 2, store: Path | None = None) -> list[Job]:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=epochs, batch_size=16)
    return [
        Job(job.spec, job.path, checkpoint_every=0.0, store=f"file://{store}/{job.path.name}" if store else None)
        for job in plan([spec], range(n), out)
    ]


def test_checkpoints_are_kept_where_they_are_asked_for(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=3, batch_size=16)
    (job,) = plan([spec], [0], tmp_path, keep_every=1)
    assert run_all([job], workers=1) == {}
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


def kill_in_the_middle(folder: Path, killed: list[int]) -> None:
    """SIGKILL whoever makes a run once it has a checkpoint and is not done."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        writer = writer_of(folder)
        if writer and list((folder / "checkpoint").glob("step-*")) and not (folder / "done.json").exists():
            os.kill(writer, signal.SIGKILL)
            killed.append(writer)
            return
        time.sleep(0.002)


def check_all_done_once(jobs: list[Job], heard: list[News], tmp_path: Path) -> None:
    done = [news.job.path for news in heard if news.done]
    assert sorted(done) == sorted(job.path for job in jobs)
    for job in jobs:
        run(job.spec, tmp_path / "whole" / job.path.name)
        assert content(job.path) == content(tmp_path / "whole" / job.path.name)


def test_a_killed_worker_takes_no_other_run_with_it(small_npz: Path, tmp_path: Path) -> None:
    jobs = jobs_on(small_npz, tmp_path / "runs", epochs=40)
    heard: list[News] = []
    killed: list[int] = []
    killer = threading.Thread(target=kill_in_the_middle, args=(jobs[0].path, killed))
    killer.start()
    failed = run_all(jobs, workers=2, listen=heard.append)
    killer.join()
    assert failed == {}
    assert len(killed) == 1
    again = [news for news in heard if news.again]
    assert [news.job for news in again] == [jobs[0]]
    assert "it was killed" in str(again[0].error)
    check_all_done_once(jobs, heard, tmp_path)


def test_a_run_that_keeps_failing_is_tried_twice_and_reported(small_npz: Path, tmp_path: Path) -> None:
    jobs = jobs_on(small_npz, tmp_path / "runs", 2)
    jobs[0].path.parent.mkdir(parents=True)
    jobs[0].path.write_text("in the way")  # a file where the folder should be
    heard: list[News] = []
    failed = run_all(jobs, workers=1, listen=heard.append)
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


def test_trackings_are_joined() -> None:
    a, b = Tracking(("x", "y")), Tracking(("y", "z"))
    assert a.joined(b) == Tracking(("x", "y", "z"))
    assert Tracking().joined(Tracking(("x",), 0.1)) == Tracking(("x",), 0.1)
    assert a.joined(b).covers(a)
    assert a.joined(b).covers(b)


CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 80_000_000})
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, int]]:
    """A Ray cluster on this machine, in processes of its own: its address, and the process that started it."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'surefoot[ray]'")
    env = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address, "the cluster did not start"
    yield address, process.pid
    process.communicate("", timeout=60)


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.parametrize("way", ["shared path", "store"])
def test_a_killed_ray_worker_loses_nothing(
    way: str, cluster: tuple[str, int], small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL in the middle of a run, on a path that all share and through a store."""
    address, pid = cluster
    monkeypatch.setenv("RAY_ADDRESS", address)
    store = tmp_path / "store" if way == "store" else None
    jobs = jobs_on(small_npz, tmp_path / "runs", epochs=150, store=store)
    heard: list[News] = []
    killed: list[int] = []
    target: Callable[..., None] = kill_in_the_middle if store is None else kill_a_task
    killer = threading.Thread(target=target, args=(jobs[0].path if store is None else pid, killed))
    killer.start()
    failed = run_all(jobs, workers=2, listen=heard.append, engine="ray")
    killer.join()
    assert failed == {}
    assert len(killed) == 1
    assert sum(news.again for news in heard) == 1
    check_all_done_once(jobs, heard, tmp_path)


def kill_a_task(cluster: int, killed: list[int]) -> None:
    """SIGKILL a worker of the cluster that makes a run in a place of its own."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for process in Path("/proc").glob("[0-9]*"):
            if is_at_work(process, cluster):
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
                return
        time.sleep(0.01)


def is_at_work(process: Path, cluster: int) -> bool:
    """Say whether a process is one of the cluster's tasks and holds the lock of a run."""
    try:
        if b"ray::_work" not in (process / "cmdline").read_bytes() or cluster not in ancestors(int(process.name)):
            return False
        return any(os.readlink(file).endswith(".lock") for file in (process / "fd").iterdir())
    except OSError:  # it ended while we looked
        return False


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
