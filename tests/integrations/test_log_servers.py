"""Logs in MLflow and Weights & Biases, with the packages themselves; they run where these are installed."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import surefoot as sf
from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.integrations.logging import Log, Logs, LogWarning
from surefoot.studies.compare import make_spec
from tests.integrations.test_logging import SETTINGS, STEPS, Stopped, files, recorded, stop_after

pytestmark = pytest.mark.filterwarnings(  # of the packages
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::PendingDeprecationWarning"
)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'surefoot[mlflow]'")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    return mlflow.MlflowClient()


def mlflow_runs(client: Any) -> list[Any]:
    return list(client.search_runs([client.get_experiment_by_name("mine").experiment_id]))


def check_mlflow(client: Any, found: Any, folder: Path) -> None:
    for key, points in recorded(folder).items():
        history = client.get_metric_history(found.info.run_id, key.replace("@", "_at_"))
        assert [(each.step, each.value) for each in history] == points, key


def test_mlflow_has_every_record_once(client: Any, small_npz: Path, tmp_path: Path) -> None:
    """A run that is stopped behind its last checkpoint, goes on, and is asked for once more."""
    spec, folder = make_spec("sgd", data=f"npz:{small_npz}", **SETTINGS), tmp_path / "run"
    logs = Logs.of("mlflow")
    for every, steps in ((0, 3), (60, 5)):
        with pytest.raises(Stopped):
            run(spec, folder, checkpoint_every=every, on_progress=stop_after(steps), listener=logs())
        assert mlflow_runs(client)[0].info.status == "FAILED"
    for _ in range(2):
        sf.train(spec, out=folder, log="mlflow")
    (found,) = mlflow_runs(client)
    check_mlflow(client, found, folder)
    assert (found.info.status, found.info.run_name) == ("FINISHED", "run")
    assert found.data.params["epochs"] == "2"
    assert found.data.metrics["final/test/ece_at_temperature"] == sf.load_run(folder).measure("ece@temperature")
    assert [each.path for each in client.list_artifacts(found.info.run_id)] == ["reliability.png"]
    sf.train(spec, out=folder, log="mlflow", fresh=True)  # another run, there too
    assert len(mlflow_runs(client)) == 2


def test_a_server_that_is_gone_stops_the_log_and_not_the_run(
    client: Any, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, folder = make_spec("sgd", data=f"npz:{small_npz}", **SETTINGS), tmp_path / "run"
    logs = Logs.of("mlflow")
    monkeypatch.setattr("surefoot.integrations._writers.EVERY", -1.0)  # sends after every step

    def lose(step: int, n_steps: int, loss: float) -> None:
        if step == 3:
            (tmp_path / "mlruns").rename(tmp_path / "away")

    with pytest.warns(LogWarning, match="Expected to log run to mlflow, but after step 4: .*training goes on") as said:
        run(spec, folder, on_progress=lose, listener=logs())
    assert len(said) == 1
    assert not logs.has_all(folder)
    (tmp_path / "mlruns").rename(tmp_path / "left") if (tmp_path / "mlruns").exists() else None
    (tmp_path / "away").rename(tmp_path / "mlruns")
    before = files(folder)
    sf.train(spec, out=folder, log="mlflow")  # the same command writes the rest
    (found,) = mlflow_runs(client)
    check_mlflow(client, found, folder)
    assert files(folder) == before


def test_mlflow_that_cannot_be_had_is_refused(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nosuch://server")
    with pytest.raises(
        InputError, match=r"Expected MLflow to answer at nosuch://server, but .*Set MLFLOW_TRACKING_URI"
    ):
        sf.train(out=tmp_path / "run", log="mlflow")
    assert not (tmp_path / "run").exists()


def test_a_loop_of_ones_own_logs_into_its_own_mlflow_run(client: Any, tmp_path: Path) -> None:
    import mlflow

    mlflow.set_experiment("mine")
    with mlflow.start_run() as active:
        with Log("mlflow", tmp_path / "log") as log:
            log({"step": 1, "train/loss": 0.5})
        mlflow.log_metric("after", 1)
    found = client.get_run(active.info.run_id)
    assert found.data.metrics == {"train/loss": 0.5, "after": 1.0}
    assert len(mlflow_runs(client)) == 1


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    package = pytest.importorskip("wandb", reason="wandb is not installed: pip install 'surefoot[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    yield package
    package.teardown()


def chunks(file: Path) -> Iterator[bytes]:
    """Read the messages in an offline file: blocks of 32 KiB, in them pieces with checksum, length and kind."""
    data, place, begun = file.read_bytes(), 7, b""  # behind a header of seven bytes
    while place + 7 <= len(data):
        length, kind = struct.unpack("<HB", data[place + 4 : place + 7])
        begun += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield begun
            begun = b""
        rest = 32768 - place % 32768
        place += rest if rest < 7 else 0


def history(file: Path) -> tuple[dict[str, list[tuple[int, float]]], dict[str, Any]]:
    """Read an offline run back: its history and its summary."""
    from wandb.proto import wandb_internal_pb2

    found, summary = dict[str, list[tuple[int, float]]](), dict[str, Any]()
    for data in chunks(file):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        step = int(values.get("_step", record.history.step.num))
        for key, value in values.items():
            if not key.startswith("_"):
                found.setdefault(key, []).append((step, value))
        summary |= {item.key or "/".join(item.nested_key): item.value_json for item in record.summary.update}
    return found, summary


def test_wandb_has_every_record_offline(wandb: Any, small_npz: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sf.train(out=folder, data=f"npz:{small_npz}", log="wandb", **SETTINGS)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    found, summary = history(file)
    for key, points in recorded(folder).items():
        assert found[key] == [(step, pytest.approx(value)) for step, value in points], key
    assert [step for step, _ in found["batch/loss"]] == list(range(1, STEPS + 1))
    assert "final/test/ece" in summary
    assert list(file.parent.rglob("reliability*.png"))


def test_wandb_without_a_key_is_refused(wandb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    wandb.teardown()
    with pytest.raises(InputError, match=r"there is no key. Run `wandb login`, or set WANDB_MODE=offline"):
        sf.train(out=tmp_path / "run", log="wandb")
    assert not (tmp_path / "run").exists()
