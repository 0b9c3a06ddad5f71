"""Comparisons on a real Ray cluster of two machines, both of them here: workers and machines are lost, runs are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.records import RunFolder
from surefoot.records.remote import finished_at
from surefoot.studies.engines.ray import check_room
from tests.patience import PATIENCE
from tests.runs import content
from tests.studies.gate import put_tickets, who_is_there

pytest.importorskip("ray", reason="Ray is not installed: pip install 'surefoot[ray]'")
ROOT = Path(__file__).parents[2]
NODES = """
import sys
from ray.cluster_utils import Cluster
words = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args=words)
other = cluster.add_node(**words, num_gpus=1)
pids = [node.all_processes["raylet"][0].process.pid for node in (cluster.head_node, other)]
print(cluster.address, *pids, flush=True)
for line in sys.stdin:
    if line.strip() == "lose":
        cluster.remove_node(other)
        print("lost", flush=True)
cluster.shutdown()
"""
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-this-test-and-no-secret-0123456789"}


def environment(**more: str) -> dict[str, str]:
    """What the cluster and the commands are started with: this code, and nothing of other clusters."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    paths = [str(Path(sf.__file__).parents[1]), str(ROOT)]
    env |= {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    env["RAY_worker_niceness"] = "0"  # Ray's own 15 starves its workers on a busy machine
    return {**env, "PYTHONPATH": os.pathsep.join(paths), **TOKEN, **more}


class Nodes:
    """A Ray cluster on this machine, in processes of its own: a head and another machine, which has a GPU as well."""

    def __init__(self) -> None:
        code = [sys.executable, "-c", NODES]
        self.process = subprocess.Popen(
            code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert len(words) == 3, "the cluster did not start"
        self.address, self.head, self.other = words[0], int(words[1]), int(words[2])

    def lose_other(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("lose\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "lost\n"


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.process.communicate("", timeout=PATIENCE)


def start(nodes: Nodes, small_npz: Path, folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "surefoot", "compare", "--engine", "ray", "--address", nodes.address, *words]
    command += ["--data", f"npz:{small_npz}", "--model", "mlp:width=8", "--epochs", "3", "--batch-size", "16"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True)


def machine_of(worker: int) -> int:
    """The raylet that a worker was started by."""
    return int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])


def check_same(made: RunFolder, folder: Path) -> None:
    assert content(run(made.spec, folder / made.path.name).path) == content(made.path)


def test_a_run_gets_the_gpu_it_asks_for_and_goes_on_from_the_store(
    nodes: Nodes, small_npz: Path, tmp_path: Path
) -> None:
    """SIGKILL before its 14th step: it is tried once more, to the same bits, and is at its address and here."""
    put_tickets(tmp_path / "gate", 1)
    store, method = f"file://{tmp_path}/store", f"tests.studies.gate:waiting:folder={tmp_path}/gate + sgd"
    words = ["--methods", method, "--seeds", "1", "--gpus-per-run", "1", "--cpus-per-run", "0.5", "--out", store]
    with start(nodes, small_npz, tmp_path, *words) as command:
        (worker,) = who_is_there(tmp_path / "gate", 1, lambda: command.poll() is not None)
        assert machine_of(worker) == nodes.other
        os.kill(worker, signal.SIGKILL)
        printed, told = command.communicate()
    assert command.returncode == 0, told
    assert "Warning: Each run takes a GPU and trains on the CPU. Add --device cuda." in told
    assert told.count("Expected the Ray worker to finish, but it died") == 1
    assert "It is tried once more. [0/1 done, 0 running]" in told
    cache = tmp_path / "surefoot-runs" / f"file{tmp_path}/store".replace("/", "-")
    assert f"Kept at: {store}, and in {cache} here" in printed
    (made,) = map(RunFolder, (path.parent for path in cache.glob("*/done.json")))
    assert finished_at(store) == {made.path.name}
    assert (tmp_path / "store" / "report.html").exists()
    check_same(made, tmp_path / "whole")


def test_a_search_on_the_cluster_goes_on_where_its_worker_was_killed(
    nodes: Nodes, small_npz: Path, tmp_path: Path
) -> None:
    """Ray Tune: the first setting is killed and tried once more, the second is hopeless and stopped after an epoch."""
    pytest.importorskip("pandas")
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed: pip install 'ray[tune]'")
    put_tickets(tmp_path / "gate", 1)
    text = f"tests.studies.gate:waiting:folder={tmp_path}/gate + sgd:lr=0.1|1e-6"
    words = ["--methods", "", "--search", text, "--seeds", "1", "--jobs", "1", "--out", "runs", "--json"]
    with start(nodes, small_npz, tmp_path, *words) as command:
        (worker,) = who_is_there(tmp_path / "gate", 1, lambda: command.poll() is not None)
        os.kill(worker, signal.SIGKILL)
        printed, told = command.communicate()
    assert command.returncode == 0, told
    (grid,) = json.loads(printed)["grids"]
    assert (grid["tried"], grid["stopped"], len(grid["settings"])) == (2, 1, 1)
    assert grid["chosen"].endswith("sgd:lr=0.1")
    assert told.count("It is tried once more.") == 1
    assert "seed 1000: Stopped after epoch 1: others are ahead. [2/2 done, 0 running]" in told
    (trial,) = map(RunFolder, (path.parent for path in tmp_path.glob("runs/search/*/*/done.json")))
    check_same(trial, tmp_path / "whole")
    (made,) = map(RunFolder, (path.parent for path in tmp_path.glob("runs/*/done.json")))
    assert (made.spec.method, made.spec.seed) == (trial.spec.method, 0)  # a seed that the search has not used


def test_a_comparison_loses_a_worker_and_a_machine(nodes: Nodes, small_npz: Path, tmp_path: Path) -> None:
    """One run on each of two machines, both stopped at the same step; last, for a machine is gone then."""
    put_tickets(tmp_path / "gate", 2)
    method = f"tests.studies.gate:waiting:folder={tmp_path}/gate + sgd"
    with start(nodes, small_npz, tmp_path, "--methods", method, "--seeds", "2", "--out", "runs") as command:
        workers = who_is_there(tmp_path / "gate", 2, lambda: command.poll() is not None)
        where = {machine_of(worker): worker for worker in workers}
        assert set(where) == {nodes.head, nodes.other}
        nodes.lose_other()
        os.kill(where[nodes.head], signal.SIGKILL)
        _, told = command.communicate()
    assert command.returncode == 0, told
    assert told.count("It is tried once more.") == 2
    assert "[2/2 done, 0 running]" in told
    made = [RunFolder(path.parent) for path in sorted(tmp_path.glob("runs/*/done.json"))]
    assert sorted(each.spec.seed for each in made) == [0, 1]
    for each in made:
        check_same(each, tmp_path / "whole")


def test_what_no_machine_has_is_told() -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 8.0, "GPU": 1.0}}]
    check_room(nodes, {"CPU": 2.0, "GPU": 0.0}, is_local=True)
    with pytest.raises(InputError, match="Expected --cpus-per-run to be at most 2, which this machine has, but got 4"):
        check_room(nodes, {"CPU": 4.0, "GPU": 0.0}, is_local=True)
    with pytest.warns(UserWarning, match="A run takes 0.5 GPU, but the largest machine of the Ray cluster has 0: runs"):
        check_room(nodes, {"CPU": 1.0, "GPU": 0.5}, is_local=False)


def test_a_wrong_token_is_told_as_one(nodes: Nodes) -> None:
    code = f"from surefoot.clusters import connect; connect({nodes.address!r})"
    env = environment(RAY_AUTH_TOKEN="another-one-0123456789-0123456789-0")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1
    assert "but it refuses our token. Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in done.stderr
