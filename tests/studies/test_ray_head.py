"""The head of a real Ray cluster is killed: the command says so in one line and ends, and goes on with the next one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from surefoot.records import RunFolder
from tests.patience import PATIENCE, until
from tests.studies.gate import put_tickets, who_is_there
from tests.studies.test_ray import check_same, environment

pytest.importorskip("ray", reason="Ray is not installed: pip install 'surefoot[ray]'")
NODES = """
import os, signal, sys
from ray.cluster_utils import Cluster
words = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args=words)
other = cluster.add_node(**words)
print(cluster.address, flush=True)
for line in sys.stdin:
    for each in [one for several in cluster.head_node.all_processes.values() for one in several]:
        each.process.kill()
        each.process.wait()
    print("lost", flush=True)
cluster.shutdown()
"""
QUICK = {"RAY_gcs_rpc_server_reconnect_timeout_s": "20"}  # how long Ray waits for a head; else a minute


@contextmanager
def cluster() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", NODES]
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment(**QUICK)) as made:
        assert made.stdout is not None
        yield made.stdout.readline().strip(), made
        made.communicate("", timeout=PATIENCE)


def start(address: str, small_npz: Path, folder: Path) -> subprocess.Popen[str]:
    method = f"tests.studies.gate:waiting:folder={folder}/gate + sgd"
    words = [sys.executable, "-m", "surefoot", "compare", "--engine", "ray", "--address", address, "--out", "runs"]
    words += ["--methods", method, "--seeds", "2", "--data", f"npz:{small_npz}", "--model", "mlp:width=8"]
    words += ["--epochs", "3", "--batch-size", "16"]
    pipe, env = subprocess.PIPE, environment(**QUICK)
    return subprocess.Popen(words, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see which workers are there")
def test_a_comparison_loses_the_head_and_goes_on_with_another(small_npz: Path, tmp_path: Path) -> None:
    """A run on each of two machines, both stopped at the same step, when the head with all its processes is killed."""
    put_tickets(tmp_path / "gate", 2)
    with cluster() as (address, nodes):
        with start(address, small_npz, tmp_path) as command:
            workers = who_is_there(tmp_path / "gate", 2, lambda: command.poll() is not None)
            assert nodes.stdin is not None
            assert nodes.stdout is not None
            nodes.stdin.write("lose\n")
            nodes.stdin.flush()
            assert nodes.stdout.readline() == "lost\n"
            _, told = command.communicate(timeout=PATIENCE)
        assert command.returncode == 1, told
        assert told.count(f"Error: Expected the head of the Ray cluster at {address} to answer, but it has not") == 1
        assert "run the same command again to go on from what is kept" in told
        assert "Traceback" not in told
        until(lambda: all(map(is_over, workers)))  # Ray ends them: nobody trains on
    with cluster() as (address, _), start(address, small_npz, tmp_path) as command:
        _, told = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0, told
    made = [RunFolder(path.parent) for path in sorted(tmp_path.glob("runs/*/done.json"))]
    assert sorted(each.spec.seed for each in made) == [0, 1]
    for each in made:
        check_same(each, tmp_path / "whole")
