"""Logs of runs: complete, once each, and nothing to the run."""

from __future__ import annotations

import csv
import io
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

import surefoot as sf
from surefoot.errors import DivergedError, InputError, UnknownNameError
from surefoot.experiment import run
from surefoot.integrations import _writers
from surefoot.integrations.logging import Log, Logs, LogWarning, read_log
from surefoot.records import RunFolder
from surefoot.schema import Splits, Tracking
from surefoot.studies.compare import make_spec
from surefoot.studies.engine import Job
from surefoot.trackers import Watch, read_track
from tests.conftest import RunCommand

SETTINGS = {"model": "mlp:width=8,depth=1", "epochs": 2, "batch_size": 30}
TIMING = {"timing.jsonl", "done.json", ".lock"}
STEPS = 6  # two epochs of 90 examples in batches of 30


def files(folder: Path) -> dict[str, bytes]:
    """Read everything of a run but seconds and logs."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in found.items() if name.parts[0] not in {*TIMING, "log"}}


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Read scalars back as TensorBoard does."""
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "log" / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def recorded(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Read from the run folder what a log has to say."""
    found: dict[str, list[tuple[int, float]]] = {}
    for record in RunFolder(folder).steps():
        values = {key: value for key, value in record.items() if "/" in key and value is not None}
        if "tracker" not in record:
            values = {f"batch/{key}": record[key] for key in ("loss", "lr", "passes")}
        for key, value in values.items():
            found.setdefault(key, []).append((record["step"], value))
    return found


def check_log(folder: Path) -> None:
    """Compare both kinds of files with the run's records: everything is there, once."""
    wanted, written = recorded(folder), scalars(folder / "log")
    for key, points in wanted.items():
        assert [step for step, _ in written[key]] == [step for step, _ in points], key
        assert [value for _, value in written[key]] == pytest.approx([value for _, value in points]), key
    table = [row for row in rows(folder) if not row["key"].startswith("final/")]
    assert Counter((int(row["step"]), row["key"]) for row in table) == Counter(
        (step, key) for key, points in wanted.items() for step, _ in points
    )
    assert all(float(row["value"]) == dict(wanted[row["key"]])[int(row["step"])] for row in table)


@pytest.fixture(scope="module")
def logged(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "logged"
    sf.train(out=folder, data=f"npz:{small_npz}", method="csam", track="cheap", log="tensorboard,csv", **SETTINGS)
    return folder


def test_every_record_is_in_the_log_once(logged: Path) -> None:
    check_log(logged)
    written = scalars(logged / "log")
    assert {"calibration/ece", "train/margin_median", "step/rho", "test/accuracy"} <= set(written)
    assert [step for step, _ in written["batch/loss"]] == list(range(1, STEPS + 1))
    final = sf.load_run(logged).measure("ece@temperature")
    assert written["final/test/ece@temperature"] == [(STEPS, pytest.approx(final))]
    assert {row["tracker"] for row in rows(logged)} >= {"", "quality", "margins", "step_facts", "objective"}


def test_the_reliability_diagram_and_the_settings_are_there(logged: Path) -> None:
    from matplotlib.image import imread

    events = EventAccumulator(str(logged / "log"), size_guidance={"images": 0, "tensors": 0})
    events.Reload()
    (image,) = events.Images("reliability")
    png = (logged / "log" / "reliability.png").read_bytes()
    assert (image.step, image.encoded_image_string) == (STEPS, png)
    pixels = imread(io.BytesIO(png))
    assert pixels.shape[:2] == (image.height, image.width)
    assert pixels.std() > 0.1  # something is drawn
    (text,) = events.Tensors("settings/text_summary")
    assert "| epochs | `2` |" in text.tensor_proto.string_val[0].decode()


def test_a_run_is_the_same_with_a_log(logged: Path, small_npz: Path, tmp_path: Path) -> None:
    sf.train(out=tmp_path / "plain", data=f"npz:{small_npz}", method="csam", track="cheap", **SETTINGS)
    assert files(logged) == files(tmp_path / "plain")
    assert RunFolder(logged).run_id == RunFolder(tmp_path / "plain").run_id


class Drawing(_writers.Csv):
    """A writer that draws random numbers, as a server's client does between two attempts."""

    def write(self, *words: Any) -> None:
        random.random(), np.random.rand(), torch.rand(())
        super().write(*words)


def test_random_numbers_that_a_log_draws_change_nothing(
    logged: Path, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Log.__init__.__globals__["WRITERS"], "csv", Drawing)
    folder = tmp_path / "run"
    sf.train(out=folder, data=f"npz:{small_npz}", method="csam", track="cheap", log="csv", **SETTINGS)
    assert files(folder) == files(logged)


class Stopped(Exception):
    """In place of a kill."""


def stop_after(steps: int) -> Any:
    def on_progress(step: int, n_steps: int, loss: float) -> None:
        if step == steps:
            raise Stopped

    return on_progress


def test_a_run_that_goes_on_writes_nothing_twice(logged: Path, small_npz: Path, tmp_path: Path) -> None:
    """Stopped behind the last checkpoint: the steps since are made again."""
    spec, folder = make_spec("csam", data=f"npz:{small_npz}", **SETTINGS), tmp_path / "run"
    tracking, logs = Tracking(read_track("cheap")), Logs.of("tensorboard,csv")
    for every, steps in ((0, 3), (60, 5)):  # a checkpoint after every step, then none
        with pytest.raises(Stopped):
            run(
                spec,
                folder,
                tracking=tracking,
                checkpoint_every=every,
                on_progress=stop_after(steps),
                listener=logs(),
            )
        assert not logs.has_all(folder)
    assert [step for step, _ in scalars(folder / "log")["batch/loss"]] == [1, 2, 3, 4, 5]
    run(spec, folder, tracking=tracking, listener=logs())
    check_log(folder)
    assert logs.has_all(folder)
    assert files(folder) == files(logged)


def test_a_finished_run_is_logged_afterwards(small_npz: Path, tmp_path: Path) -> None:
    words = {"out": tmp_path / "run", "data": f"npz:{small_npz}", **SETTINGS}
    sf.train(**words)
    before = files(tmp_path / "run")
    sf.train(**words, log="csv")
    sf.train(**words, log=["tensorboard", "csv"])  # one is there, one is not
    check_log(tmp_path / "run")
    sf.train(**words, log="tensorboard,csv")  # and nothing is added to what is complete
    check_log(tmp_path / "run")
    assert files(tmp_path / "run") == before


def test_a_run_made_anew_has_a_new_log(small_npz: Path, tmp_path: Path) -> None:
    words = {"out": tmp_path / "run", "data": f"npz:{small_npz}", "log": "tensorboard,csv", **SETTINGS}
    sf.train(**words)
    sf.train(**words, track="cheap")
    check_log(tmp_path / "run")
    sf.train(**words, method="sam", fresh=True)
    check_log(tmp_path / "run")


def test_an_ensemble_has_one_log(small_npz: Path, tmp_path: Path) -> None:
    words = {"data": f"npz:{small_npz}", **SETTINGS, "epochs": 1}
    sf.train(out=tmp_path / "run", method="deep:members=2 + sgd", log="tensorboard,csv", **words)
    check_log(tmp_path / "run")
    assert [step for step, _ in scalars(tmp_path / "run" / "log")["batch/loss"]] == list(range(1, 7))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
@pytest.mark.parametrize("name", ["csv", "tensorboard"])
def test_a_full_disk_stops_the_log_and_not_the_run(
    name: str, logged: Path, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is one of a device that takes what it is given and then has no room for it, as a full disk does."""
    words = {"out": tmp_path / "run", "data": f"npz:{small_npz}", "method": "csam", "track": "cheap", **SETTINGS}
    monkeypatch.setattr(_writers, "EVERY", -1.0)  # sends after every step
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", on_a_full_disk(Path.open))
        with pytest.warns(LogWarning, match=f"log run to {name}, but .*No space left.*training goes on") as said:
            sf.train(**words, log=name)
    assert len(said) == 1
    assert files(tmp_path / "run") == files(logged)
    sf.train(**words, log="tensorboard,csv")  # the same command makes it whole
    check_log(tmp_path / "run")


def on_a_full_disk(real: Any) -> Any:
    """Open a log's files on a device that is full."""

    def opened(path: Path, mode: str = "r", *words: Any, **more: Any) -> Any:
        full = path.name.startswith(("metrics.csv", "events")) and mode in ("a", "wb")
        return real(Path("/dev/full") if full else path, mode, *words, **more)

    return opened


def test_a_run_that_diverges_keeps_its_log(small_npz: Path, tmp_path: Path) -> None:
    words = {"data": f"npz:{small_npz}", **SETTINGS, "epochs": 9, "lr": 1e30}
    with pytest.raises(DivergedError):
        sf.train(out=tmp_path / "run", log="tensorboard,csv", **words)
    check_log(tmp_path / "run")
    logs = Logs.of("csv")
    assert not logs.has_all(tmp_path / "run")


def test_somebody_elses_table_is_left_alone(small_npz: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / "log").mkdir(parents=True)
    (tmp_path / "run" / "log" / "metrics.csv").write_text("mine")
    with pytest.warns(LogWarning, match="somebody else's file is there"):
        sf.train(out=tmp_path / "run", data=f"npz:{small_npz}", log="csv", **SETTINGS)
    assert (tmp_path / "run" / "log" / "metrics.csv").read_text() == "mine"


def test_compare_has_one_log_per_run(small_npz: Path, tmp_path: Path, run_command: RunCommand) -> None:
    words = "--model mlp:width=8,depth=1 --epochs 1 --batch-size 30 --seeds 2 --jobs 1 --methods sgd --out runs"
    data = ("--data", f"npz:{small_npz}")
    done = run_command("compare", *data, *words.split(), "--log", "tensorboard,csv")
    assert done.returncode == 0, done.stderr
    folders = sorted(path.parent for path in (tmp_path / "runs").glob("*/spec.json"))
    assert len(folders) == 2
    for folder in folders:
        check_log(folder)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/log/*")}
    again = run_command("compare", *data, *words.split(), "--log", "tensorboard,csv")
    assert again.returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/log/*")} == kept
    job = Job(RunFolder(folders[0]).spec, folders[0], log=Logs.of("csv"))
    assert job.is_done
    (folders[0] / "log" / "log.json").unlink()
    assert not job.is_done  # so that a worker makes the log whole


def test_what_cannot_be_had_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_command: RunCommand
) -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown log 'tensorbord'. Did you mean 'tensorboard'"):
        sf.train(out=tmp_path / "run", log="tensorbord")
    with pytest.raises(InputError, match="Expected where to log, but got ','"):
        read_log(",")
    for name in ("tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
        with pytest.raises(InputError, match=rf"cannot be imported .* Run pip install 'surefoot\[{name}\]'"):
            sf.train(out=tmp_path / "run", log=name)
        done = run_command("compare", "--out", "runs", "--log", name)
        assert (done.returncode, f"surefoot[{name}]" in done.stderr) == (2, True)
    assert not list(tmp_path.glob("run*"))


def test_a_loop_of_ones_own_is_logged(small_splits: Splits, tmp_path: Path) -> None:
    x, y = small_splits.train.inputs.flatten(1), small_splits.train.labels
    test = small_splits.test.inputs.flatten(1), small_splits.test.labels

    def train(first: int, last: int) -> None:
        torch.manual_seed(0)
        model = nn.Linear(36, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Log("tensorboard,csv", tmp_path, settings={"lr": 0.1}) as log:
            watch = Watch("quality:every=2", train=(x, y), test=test, listen=log)
            for step in range(first, last):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                watch(step, model)
                log({"step": step, "mine": loss.item()})
            log.reliability(model(test[0]).softmax(-1).detach(), test[1])

    train(0, 6)
    train(4, 9)  # goes on from where it was at step 4: what was written since is replaced
    found = scalars(tmp_path)
    assert [step for step, _ in found["mine"]] == list(range(9))
    assert [step for step, _ in found["test/ece"]] == [0, 2, 4, 6, 8]
    with (tmp_path / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [int(row["step"]) for row in table if row["key"] == "mine"] == list(range(9))
    assert (tmp_path / "reliability.png").stat().st_size > 1000
