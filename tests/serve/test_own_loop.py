"""A plain loop, written down as a run: the same training, and pages that read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import surefoot as sf
from surefoot.errors import InputError
from surefoot.records import find_runs
from surefoot.report.page import write_page
from surefoot.report.summary import summarise
from surefoot.schema import Splits
from surefoot.serve.runs import Glance, read_header, state_of
from surefoot.serve.series import Curves
from tests.optim.distributed.launch import torchrun


def train(splits: Splits, out: Path | None, *, fail_at: int = 0, **more: object) -> nn.Module:
    torch.manual_seed(0)
    x, y = splits.train.inputs.flatten(1), splits.train.labels
    model = nn.Sequential(nn.Linear(36, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    watched = None
    if out is not None:
        pairs = {n: (splits[n].inputs.flatten(1), splits[n].labels) for n in ("train", "calibration", "test")}
        options = {"track": "cheap,gn_sharpness", "epochs": 3, "steps_per_epoch": 10, **pairs, **more}
        watched = sf.watch(optimizer, model, out=out, **options)  # type: ignore[arg-type]
        watched.__enter__()
    for step in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[:32]), y[:32])
        loss.backward()
        optimizer.step()
        if watched is not None:
            watched(loss, (x[:32], y[:32]))
            if step + 1 == fail_at:
                error = RuntimeError()
                watched.__exit__(RuntimeError, error, None)
                return model
    if watched is not None:
        watched.__exit__(None, None, None)
    return model


def test_the_training_is_the_same_and_the_pages_read_it(small_splits: Splits, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "mine"
    plain, watched = train(small_splits, None).state_dict(), train(small_splits, out).state_dict()
    assert all(torch.equal(plain[key], watched[key]) for key in plain)

    header = read_header(out)
    assert header is not None
    told = Glance(header).look()
    assert (told["method"], told["state"], told["step"], told["n_steps"]) == ("SGD", "finished", 30, 30)
    assert told["accuracy"] is not None
    assert told["own"]  # so nobody is told to start the same command again
    (run,) = find_runs([tmp_path / "runs"])
    drawn = Curves().add(run.steps())
    assert {"loss", "nll", "ece", "gap", "margin_median", "sharpness", "two_over_lr"} <= set(drawn["curves"])
    assert drawn["curves"]["loss"][0] == list(range(1, 31))
    assert drawn["bins"]["split"] == "calibration"

    page = write_page(summarise([run]), tmp_path / "page.html")
    assert "SGD" in page.read_text()


def test_a_loop_that_fails_leaves_an_interrupted_run_and_its_folder_is_not_taken_twice(
    small_splits: Splits, tmp_path: Path
) -> None:
    train(small_splits, tmp_path / "run", fail_at=12)
    assert state_of(tmp_path / "run") == "interrupted"
    with pytest.raises(InputError, match=r"Expected .* to be empty, but it holds a run .* fresh=True"):
        train(small_splits, tmp_path / "run")
    train(small_splits, tmp_path / "run", fresh=True)
    assert state_of(tmp_path / "run") == "finished"


def test_somebodys_own_files_stay(small_splits: Splits, tmp_path: Path) -> None:
    (tmp_path / "steps.jsonl").write_text("mine")
    with pytest.raises(InputError, match="files that surefoot did not write"):
        train(small_splits, tmp_path)
    assert (tmp_path / "steps.jsonl").read_text() == "mine"


def test_of_several_ranks_the_first_one_writes_and_all_train_as_without_it(tmp_path: Path) -> None:
    done = torchrun(2, Path(__file__).with_name("ranks.py"), tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank*.json"))]
    assert [(each["same"], each["step"]) for each in said] == [(True, 12), (True, 12)]
    assert all("Expected a network that each process has whole" in each["sharded"] for each in said)
    (run,) = find_runs([tmp_path / "run"])
    steps = run.steps()
    assert [record["step"] for record in steps if "tracker" not in record] == list(range(1, 13))
    assert all("failed" not in record for record in steps)
    assert state_of(run.path) == "finished"


def watching(out: Path, splits: Splits, **more: object) -> tuple[nn.Module, torch.optim.Optimizer, sf.watch]:
    torch.manual_seed(0)
    model = nn.Linear(36, 3)
    optimizer = sf.CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model=model, rho=0.05, gamma=1.0)
    pairs = {n: (splits[n].inputs.flatten(1), splits[n].labels) for n in ("train", "calibration", "test")}
    options = {"epochs": 2, "steps_per_epoch": 3, "track": "cheap", **pairs, **more}
    return model, optimizer, sf.watch(optimizer, model, out=out, **options)  # type: ignore[arg-type]


def test_a_loop_with_a_closure_is_watched_with_its_rho_and_its_cost(small_splits: Splits, tmp_path: Path) -> None:
    model, optimizer, watch = watching(tmp_path / "run", small_splits)
    x, y = small_splits.train.inputs.flatten(1)[:32], small_splits.train.labels[:32]
    with watch as watched:
        for _ in range(6):
            watched(optimizer.step(lambda: F.cross_entropy(model(x), y, reduction="none")))
    drawn = Curves().add(watched.folder.steps())["curves"]
    assert set(drawn["rho"][1]) == {0.05}
    assert set(drawn["gamma"][1]) == {1.0}
    assert (watched.folder.done() or {})["passes"] == 12  # two per step


def test_an_error_in_a_step_leaves_weights_and_records_whole(small_splits: Splits, tmp_path: Path) -> None:
    model, optimizer, watch = watching(tmp_path / "run", small_splits)
    x, y = small_splits.train.inputs.flatten(1)[:32], small_splits.train.labels[:32]
    calls = []

    def closure() -> torch.Tensor:
        calls.append(1)
        if len(calls) == 6:  # in the second pass of the third step, at the place climbed to
            raise ValueError("the loader broke")
        return F.cross_entropy(model(x), y, reduction="none")

    before = []

    def loop() -> None:
        with watch as watched:
            while True:
                before.append(model.weight.detach().clone())
                watched(optimizer.step(closure))

    with pytest.raises(ValueError, match="the loader broke"):
        loop()
    assert torch.equal(model.weight, before[-1])
    assert [record["step"] for record in watch.folder.steps() if "tracker" not in record] == [1, 2]
    assert state_of(watch.folder.path) == "interrupted"
    assert watch.folder.done() is None


def test_a_cell_that_is_run_again_says_what_to_do(small_splits: Splits, tmp_path: Path) -> None:
    for attempt in range(2):
        _, _, watch = watching(tmp_path / "run", small_splits)
        if attempt:
            with pytest.raises(InputError, match="fresh=True"):
                watch.__enter__()
            break
        with watch as watched:
            watched(1.0)
    with pytest.raises(InputError, match=r"Expected one block per sf\.watch"), watched:
        pass
    _, _, again = watching(tmp_path / "run", small_splits, fresh=True)
    with again as watched:
        watched(2.0)
    assert [r["loss"] for r in again.folder.steps() if "tracker" not in r] == [2.0]


def test_calls_that_make_no_sense_are_refused(small_splits: Splits, tmp_path: Path) -> None:
    _, _, watch = watching(tmp_path / "run", small_splits)
    with pytest.raises(InputError, match="Expected a block that has begun"):
        watch(1.0)
    with watch as watched, pytest.raises(InputError, match=r"Expected a loss of one number, .* shape \(2,\)"):
        watched(torch.ones(2))
