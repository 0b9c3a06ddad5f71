"""A real Ray cluster of two nodes on this machine reads predictions in parts: the answer is that of one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.auditing import _ray, audit_several, open_engine, several
from surefoot.auditing._ray import RayEngine
from surefoot.errors import InputError, RunError
from surefoot.sources import open_predictions
from surefoot.sources.plan import plan
from surefoot.sources.source import Raw, Source
from tests.auditing.made import made, softmax, write
from tests.auditing.same import differences
from tests.conftest import RunCommand
from tests.patience import PATIENCE

pytest.importorskip("ray", reason="Ray is not installed: pip install 'surefoot[ray]'")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own
ROOT = Path(__file__).parents[2]
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 80_000_000})
cluster.add_node(num_cpus=2, object_store_memory=80_000_000)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two Ray nodes on this machine with two workers each, in processes of their own: their address."""
    env = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    env["RAY_worker_niceness"] = "0"  # Ray's own 15 starves its workers on a busy machine
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert address, "the cluster did not start"
    yield address
    process.communicate("", timeout=PATIENCE)


@pytest.fixture(scope="module")
def engine(cluster: str) -> Iterator[RayEngine]:
    """Connected once for all tests."""
    with open_engine("ray", cluster) as found:
        assert isinstance(found, RayEngine)
        yield found


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.sources.plan.LEAST_VALUES", 300)


def write_groups(path: Path, n: int = 900, rows: int = 150) -> Path:
    """Write parquet with several row groups."""
    import pyarrow
    from pyarrow import parquet

    logits, labels = made(n, temperature=0.5)
    columns = {f"logit_{k}": logits[:, k] for k in range(3)}
    parquet.write_table(pyarrow.table({**columns, "label": labels}), path, row_group_size=rows)
    return path


def test_parts_are_files_row_groups_and_rows(tmp_path: Path) -> None:
    (table,) = open_predictions(write_groups(tmp_path / "a.parquet"))
    assert [part.rows for part in plan(table, 1)] == [300, 300, 300]
    assert plan(table, 1)[1].where == "rows 300 to 599 of a.parquet"
    logits, labels = made(500)
    (arrays,) = open_predictions(write(tmp_path / "a.npz", logits, labels))
    assert [part.rows for part in plan(arrays, 2)] == [100, 100, 100, 100, 100]
    for k in range(2):
        write(tmp_path / f"part-{k}.csv", logits, labels)
    (texts,) = open_predictions(f"{tmp_path}/part-*.csv")
    assert [(part.rows, part.where) for part in plan(texts, 2)] == [(None, "part-0.csv"), (None, "part-1.csv")]


def test_the_command_line_has_the_same_output(cluster: str, tmp_path: Path, run_command: RunCommand) -> None:
    """Before others join the cluster for longer: the command leaves it when it is done."""
    path = str(write_groups(tmp_path / "a.parquet"))
    one = run_command("audit", path, "--no-page", "--json")
    two = run_command("audit", path, "--no-page", "--json", "--engine", "ray", "--address", cluster)
    assert (one.returncode, two.returncode) == (0, 0), two.stderr
    assert differences(json.loads(one.stdout), json.loads(two.stdout)) == []


def test_a_cluster_of_two_nodes_gives_the_same_json(engine: RayEngine, tmp_path: Path) -> None:
    import ray

    assert sum(node["Alive"] for node in ray.nodes()) == 2
    assert ray.cluster_resources()["CPU"] == 4
    path = write_groups(tmp_path / "a.parquet")
    seen: list[tuple[int, float | None]] = []
    (one,), (two,) = (
        audit_several(path, risk=0.2, **more).audits
        for more in ({}, {"engine": engine, "on_rows": lambda *at: seen.append(at)})
    )
    assert differences(one.to_json(), two.to_json()) == []
    assert seen[-1][0] == 900
    assert [part.rows for part in engine.parts] == [150] * 6


def test_files_whose_rows_nobody_counted_are_counted_first(engine: RayEngine, tmp_path: Path) -> None:
    logits, labels = made(700, temperature=0.5)
    for number, some in enumerate((slice(0, 300), slice(300, 310), slice(310, 700))):
        write(tmp_path / f"part-{number}.csv", logits[some], labels[some])
    (one,), (two,) = (audit_several(f"{tmp_path}/part-*.csv", **more).audits for more in ({}, {"engine": engine}))
    assert [part.window.before for part in engine.parts] == [0, 300, 310]
    assert differences(one.to_json(), two.to_json()) == []


class DiesOnce:
    """Rows whose reader kills its own process the first time that the last part is read."""

    def __init__(self, source: Source, marker: Path) -> None:
        self.source, self.marker = source, marker

    def __call__(self) -> Generator[Raw]:
        for raw in self.source.start():
            if float(raw.scores[-1, 0]) == 7.0 and not self.marker.exists():
                self.marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield raw


def test_a_part_whose_worker_is_killed_is_read_again_and_that_is_told(
    cluster: str, engine: RayEngine, tmp_path: Path
) -> None:
    logits, labels = made(500, temperature=0.5)
    logits[-1] = [7.0, 0.0, 0.0]
    (whole,) = open_predictions(write(tmp_path / "a.npz", logits, labels))
    told: list[str] = []
    dying = replace(whole, start=DiesOnce(whole, tmp_path / "marker"))
    counted = RayEngine(cluster, tell=told.append).walk(dying, _rows_and_place)
    assert (tmp_path / "marker").exists()
    assert counted.found == [(k, 100) for k in range(0, 500, 100)]
    assert len(told) == 1
    assert told[0].startswith("A worker died while it read rows 400 to 499 of a.npz (")
    assert told[0].endswith("): reading it again, attempt 2 of 3.")


def test_an_audit_is_the_same_although_a_worker_is_killed(
    cluster: str, engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, labels = made(500, temperature=0.5)
    logits[-1] = [7.0, 0.0, 0.0]
    path = write(tmp_path / "a.npz", logits, labels)
    (one,) = audit_several(path).audits

    def dying(*args: Any, **told: Any) -> list[Source]:
        return [replace(each, start=DiesOnce(each, tmp_path / "marker")) for each in open_predictions(*args, **told)]

    monkeypatch.setattr(several, "open_predictions", dying)
    (two,) = audit_several(path, engine=RayEngine(cluster, tell=lambda text: None)).audits
    assert (tmp_path / "marker").exists()
    assert differences(one.to_json(), two.to_json()) == []


class _Places:
    def __init__(self, found: list[tuple[int, int]]) -> None:
        self.found = found

    def merge(self, other: _Places) -> None:
        self.found = [*self.found, *other.found]


def _rows_and_place(source: Source, on_rows: Any) -> _Places:
    return _Places([(source.first_row, sum(len(chunk.labels) for chunk in source.chunks()))])


def _dies(source: Source, on_rows: Any) -> _Places:
    os.kill(os.getpid(), signal.SIGKILL)
    return _Places([])


def test_workers_that_always_die_end_in_an_error(
    cluster: str, engine: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source,) = open_predictions(write(tmp_path / "a.csv", *made(60)))
    told: list[str] = []
    monkeypatch.setattr(_ray, "ATTEMPTS", 2)
    with pytest.raises(RunError, match=r"Expected workers that live until a\.csv is read, but 2 died"):
        RayEngine(cluster, tell=told.append).walk(source, _dies)
    assert len(told) == 1


def test_what_is_wrong_with_a_part_is_said_as_elsewhere(engine: RayEngine, tmp_path: Path) -> None:
    probs = softmax(made(500)[0])
    probs[450] = [0.5, 0.9, 0.1]
    np.savez(tmp_path / "a.npz", probs=probs, labels=made(500)[1])
    with pytest.raises(InputError, match=r"Expected probabilities .* but row 450 sums to 1\.5"):
        audit_several(tmp_path / "a.npz", engine=engine)


def test_what_ray_has_no_use_for_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", *made(60))
    with pytest.raises(InputError, match="Expected an engine among local, ray, but got 'spark'"):
        sf.audit(path, engine="spark")
    with pytest.raises(InputError, match="Expected --jobs with --engine ray, but the engine is local"):
        sf.audit(path, jobs=2)
    with pytest.raises(InputError, match="Expected files that all machines reach with engine='ray'"):
        sf.audit(probs=[[0.5, 0.5]], labels=[0], engine="ray")
    with pytest.raises(InputError, match="Expected at least one worker, but got 0"):
        sf.audit(path, engine="ray", jobs=0)
