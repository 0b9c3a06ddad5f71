"""A plain loop, written down as a run: the same training, and pages that read it."""

from __future__ import annotations

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
