"""Runs as a whole: exact, resumable, refusing what cannot work."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import surefoot.experiment as experiment
from surefoot.errors import DivergedError, InputError, OptionError, RunError
from surefoot.experiment import run
from surefoot.records import RunFolder
from surefoot.registry import OPTIMIZERS
from surefoot.schema import RunSpec
from surefoot.studies.compare import make_spec
from surefoot.trained import measure
from tests.patience import PATIENCE
from tests.runs import content


def spec_on(small_npz: Path, method: str, **settings: object) -> RunSpec:
    settings = {"epochs": 3, "batch_size": 16, "model": "cnn:width=2,dropout=0.2", **settings}
    return make_spec(method, data=f"npz:{small_npz}", **settings)


@pytest.mark.parametrize(
    "method", ["sgd", "csam", "sam:base=adamw,m=8", "label_smoothing + csam:ascent=asam,stable=true"]
)
def test_the_same_spec_gives_the_same_bits(method: str, small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, method)
    run(spec, tmp_path / "a")
    run(spec, tmp_path / "b", checkpoint_every=0)
    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize("name", [part.name for part in OPTIMIZERS])
def test_every_optimizer_trains_and_goes_on_from_a_checkpoint(name: str, small_npz: Path, tmp_path: Path) -> None:
    """Half a run, then a new process's worth of fresh objects: the same bits as the run in one go."""
    spec = spec_on(small_npz, name, epochs=4, model="mlp:width=8")
    run(spec, tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(step: int, n_steps: int, loss: float) -> None:
        if step == 13:
            raise Killed

    with pytest.raises(Killed):
        run(spec, tmp_path / "killed", checkpoint_every=0, on_progress=kill)
    run(spec, tmp_path / "killed")
    assert content(tmp_path / "killed") == content(tmp_path / "whole")
    losses = [record["loss"] for record in RunFolder(tmp_path / "whole").steps() if "loss" in record]
    assert losses[-1] < losses[0]


def test_another_seed_gives_other_bits(small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, "sgd")
    run(spec, tmp_path / "a")
    run(dataclasses.replace(spec, seed=1), tmp_path / "b")
    assert content(tmp_path / "a")["predictions/test.npz"] != content(tmp_path / "b")["predictions/test.npz"]


@pytest.mark.parametrize("method", ["csam", "label_smoothing + sam:base=adamw"])
def test_a_killed_run_goes_on_to_the_same_bits(method: str, small_npz: Path, tmp_path: Path) -> None:
    """SIGKILL, twice, at moments that nobody chose."""
    spec = spec_on(small_npz, method, epochs=25)
    run(spec, tmp_path / "whole")
    command = [
        *(sys.executable, "-m", "surefoot", "train", "--method", method, "--data", f"npz:{small_npz}"),
        *("--model", "cnn:width=2,dropout=0.2", "--epochs", "25", "--batch-size", "16"),
        *("--checkpoint-every", "0", "--out", str(tmp_path / "killed")),
    ]
    reached = 0
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        reached = wait_for_progress(tmp_path / "killed" / "checkpoint", reached, process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert RunFolder(tmp_path / "killed").done() is None
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def wait_for_progress(checkpoints: Path, reached: int, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before it could be killed"
        steps = [int(path.name.removeprefix("step-")) for path in checkpoints.glob("step-*")]
        if steps and max(steps) >= reached + 20:
            return max(steps)
        time.sleep(0.005)
    raise AssertionError("no checkpoint")


def test_data_that_were_written_anew_are_read_anew(
    small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process: a file of the same name holds other rows, then so does one in another folder."""
    for name, n in (("here", 60), ("here", 45), ("there", 30)):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        with np.load(small_npz) as held:
            np.savez("data.npz", **{key: held[key][:n] if key.endswith("_train") else held[key] for key in held})
        made = run(spec_on(Path("data.npz"), "sgd", epochs=1), tmp_path / f"{name}-{n}")
        assert len(made.predictions("train").labels) == n


def test_a_finished_run_is_not_made_again(small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, "sgd")
    run(spec, tmp_path)
    before = (tmp_path / "done.json").stat().st_mtime_ns
    steps: list[int] = []
    run(spec, tmp_path, on_progress=lambda step, n, loss: steps.append(step))
    assert steps == []
    assert (tmp_path / "done.json").stat().st_mtime_ns == before
    run(spec, tmp_path, fresh=True, on_progress=lambda step, n, loss: steps.append(step))
    assert len(steps) == 18


def test_a_folder_holds_one_run(small_npz: Path, tmp_path: Path) -> None:
    run(spec_on(small_npz, "sgd"), tmp_path)
    with pytest.raises(InputError, match="it holds another one"):
        run(spec_on(small_npz, "sam"), tmp_path)
    assert RunFolder(tmp_path).spec.method.name == "sgd"


OWN = {
    "checkpoint": ["checkpoint/best/weights.bin", "checkpoint/step-00000001/model.safetensors"],
    "predictions": ["predictions/test.npz"],
    "records": ["measures.jsonl", "spec.json"],
}


@pytest.mark.parametrize("fresh", [False, True], ids=["", "fresh"])
@pytest.mark.parametrize("names", OWN.values(), ids=OWN)
def test_a_folder_with_somebodys_own_files_is_refused(
    names: list[str], fresh: bool, small_npz: Path, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"mine": true}')
    before = content(tmp_path)
    shown = ", ".join("/".join(name.split("/")[:2]) for name in sorted(names, key=lambda name: name != "spec.json"))
    with pytest.raises(InputError, match=f"files that surefoot did not write: {shown}. Choose another --out"):
        run(spec_on(small_npz, "sgd", epochs=1), tmp_path, fresh=fresh)
    assert content(tmp_path) == before
    assert not (tmp_path / ".lock").exists()


def test_beginning_anew_removes_the_run_and_nothing_else(small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, "sgd", epochs=1)
    run(spec, tmp_path, keep_every=1)
    ours = content(tmp_path)
    own = ["notes.txt", "report.html", "predictions/mine.npz", "checkpoint/best/w.bin", "checkpoint/step-final/w.bin"]
    own += [f"checkpoint/{next(tmp_path.glob('checkpoint/step-*')).name}/mine.txt"]
    for name in own:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    run(spec, tmp_path, fresh=True)
    assert content(tmp_path) == {**ours, **dict.fromkeys(own, b"mine")}


def test_records_say_run_seed_and_cost(small_npz: Path, tmp_path: Path) -> None:
    folder = run(spec_on(small_npz, "csam", seed=5), tmp_path)
    steps, measures = folder.steps(), folder.measures()
    assert [record["step"] for record in steps if "tracker" not in record] == list(range(1, 19))
    assert [record["step"] for record in steps if record.get("tracker") == "quality"] == [0, 6, 12, 18]
    assert all(record["run"] == folder.run_id and record["seed"] == 5 for record in steps + measures)
    assert steps[-1]["passes"] == 36
    done = folder.done()
    assert done is not None
    assert done["passes"] == 36
    assert done["seconds"] > 0
    scored = {(record["split"], record["calibrator"], record["metric"]) for record in measures}
    assert {("test", None, "ece"), ("test", "temperature", "ece"), ("calibration", None, "nll")} <= scored
    assert ("calibration", "temperature", "ece") not in scored


def test_a_run_that_diverges_says_where_and_keeps_its_last_good_checkpoint(small_npz: Path, tmp_path: Path) -> None:
    spec = spec_on(small_npz, "sgd", lr=1e8, model="mlp", epochs=50)
    with pytest.raises(DivergedError, match=r"stopped at step \d+, .*Lower the learning rate.*last good checkpoint"):
        run(spec, tmp_path, checkpoint_every=0)
    kept = list((tmp_path / "checkpoint").glob("step-*"))
    assert 1 <= len(kept) <= 2  # and the one before it
    for folder in kept:
        assert all(tensor.isfinite().all() for tensor in load_file(folder / "model.safetensors").values())
    assert RunFolder(tmp_path).steps()
    assert RunFolder(tmp_path).done() is None


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"epochs": 0}, InputError, "Expected epochs ≥ 1"),
        ({"epochs": 10**400}, InputError, "Expected at most 1,000,000,000,000 steps, but the epochs"),
        ({"batch_size": 0}, InputError, "batch size ≥ 1"),
        ({"schedule": "zigzag"}, OptionError, "schedule to be cosine"),
        ({"lr": -1.0}, OptionError, "Invalid learning rate"),
        ({"device": "warp"}, InputError, "Use --device cpu"),
    ],
)
def test_settings_that_cannot_work_leave_no_folder_behind(
    change: dict[str, object], error: type[Exception], says: str, small_npz: Path, tmp_path: Path
) -> None:
    with pytest.raises(error, match=says):
        run(spec_on(small_npz, "sgd", **change), tmp_path / "run")
    assert not (tmp_path / "run" / "spec.json").exists()


def test_a_failure_to_start_again_loses_nothing(
    small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_on(small_npz, "sgd")
    run(spec, tmp_path)
    before = content(tmp_path)

    def fail(*args: object, **options: object) -> None:
        raise RunError("no")

    monkeypatch.setattr(experiment, "assemble", fail)
    with pytest.raises(RunError, match="no"):
        run(spec, tmp_path, fresh=True)
    assert content(tmp_path) == before
    assert json.loads((tmp_path / "done.json").read_text())["passes"] == 18


def test_kept_checkpoints_can_be_measured_and_change_nothing_else(small_npz: Path, tmp_path: Path) -> None:
    """One per two epochs and the newest, whenever else the clock saved one and wherever the run was stopped."""
    spec = spec_on(small_npz, "csam", epochs=5)
    run(spec, tmp_path / "plain")
    run(spec, tmp_path / "kept", keep_every=2)

    def stop(step: int, n_steps: int, loss: float) -> None:
        if step == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "stopped", keep_every=2, checkpoint_every=0, on_progress=stop)
    run(spec, tmp_path / "stopped", keep_every=2)
    kept, plain = content(tmp_path / "kept"), content(tmp_path / "plain")
    assert content(tmp_path / "stopped") == kept
    assert {name: kept[name] for name in plain} == plain
    others = {Path(name).parts[1] for name in kept.keys() - plain.keys()}
    assert others == {"step-00000012", "step-00000024"}
    measured = {record["step"]: record for record in measure(tmp_path / "kept", ["quality"])}
    assert list(measured) == [12, 24, 30]
    on_the_way = [r for r in RunFolder(tmp_path / "kept").steps() if r.get("tracker") == "quality"]
    for record in on_the_way:
        if record["step"] in measured:
            assert record["test/ece"] == measured[record["step"]]["test/ece"]


def test_keeping_checkpoints_backwards_is_refused(small_npz: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="every ≥ 0 epochs, but got -1"):
        run(spec_on(small_npz, "sgd"), tmp_path, keep_every=-1)


@pytest.mark.parametrize("method", [part.name for part in OPTIMIZERS if part.name != "muon"])  # wants two linear layers
def test_channels_last_goes_on_from_a_checkpoint_to_the_same_bits(method: str, small_npz: Path, tmp_path: Path) -> None:
    """State that comes back from disk has the usual layout, and must give the same sums."""
    spec = spec_on(small_npz, method, epochs=1, model="resnet8", channels_last=True)

    def stop(step: int, n_steps: int, loss: float) -> None:
        if step == 3:
            raise KeyboardInterrupt

    run(spec, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(spec, tmp_path / "stopped", checkpoint_every=0, on_progress=stop)
    run(spec, tmp_path / "stopped")
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")
