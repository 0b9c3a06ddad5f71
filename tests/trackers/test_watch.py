"""Trackers in a loop of one's own, and after the fact."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.experiment import run
from surefoot.schema import Splits, Tracking
from surefoot.studies.compare import make_spec
from surefoot.studies.engine import Job
from surefoot.trackers import Watch, read_track
from surefoot.trained import measure


def train(splits: Splits, watch: bool, out: Path) -> nn.Module:
    torch.manual_seed(0)
    x, y = splits.train.inputs.flatten(1), splits.train.labels
    model = nn.Sequential(nn.Linear(36, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    test = splits.test.inputs.flatten(1), splits.test.labels
    tracker = Watch("standard", train=(x, y), test=test, optimizer=optimizer, n_steps=25, out=out / "watched.jsonl")
    for step in range(1, 26):
        optimizer.zero_grad()
        F.cross_entropy(model(x[:32]), y[:32]).backward()
        optimizer.step()
        if watch:
            tracker(step, model, (x[:32], y[:32]))
    return model


def test_a_loop_of_ones_own_is_the_same_with_it(small_splits: Splits, tmp_path: Path) -> None:
    plain, watched = (train(small_splits, watch, tmp_path).state_dict() for watch in (False, True))
    assert all(torch.equal(plain[key], watched[key]) for key in plain)
    records = [json.loads(line) for line in (tmp_path / "watched.jsonl").read_text().splitlines()]
    sharp = [record for record in records if record["tracker"] == "gn_sharpness"]
    assert [record["step"] for record in sharp] == [10, 20, 25]
    assert all(record["gn_sharpness/two_over_lr"] == pytest.approx(20) for record in sharp)
    assert {record["tracker"] for record in records} >= {"quality", "margins", "step_facts", "batch_sharpness"}


def test_one_held_out_set_is_not_used_twice(small_splits: Splits) -> None:
    """A temperature fitted on the very examples that it is tested on would look better than it is."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    train, test, other = (
        (split.inputs, split.labels) for split in (small_splits.train, small_splits.test, small_splits.calibration)
    )
    alone = Watch("quality,tce", train=train, test=test)(0, model)
    assert not [key for key in alone if key.startswith("calibration/") or "tce" in key]
    both = Watch("quality,tce", train=train, test=test, calibration=other)(0, model)
    assert {"calibration/accuracy", "calibration/ece", "calibration/loss", "test/tce"} <= set(both)
    assert both["calibration/loss"] == pytest.approx(F.cross_entropy(model(other[0]), other[1]).item())


def test_a_finished_run_can_be_measured_after_the_fact(small_npz: Path, tmp_path: Path) -> None:
    """What is measured later at the last step is what would have been measured then."""
    spec = make_spec("sam", data=f"npz:{small_npz}", model="mlp:width=8", epochs=2, batch_size=16)
    texts = read_track("margins,batch_sharpness,certificate:probe=30")
    folder = run(spec, tmp_path / "later")
    before = copy.deepcopy(folder.steps())
    measure(folder.path, texts)
    then = [r for r in run(spec, tmp_path / "then", tracking=Tracking(texts)).tracked() if r["step"] == 12]
    later = [record for record in folder.tracked() if record["step"] == 12]
    assert sorted(later, key=lambda r: r["tracker"]) == sorted(then, key=lambda r: r["tracker"])
    assert folder.steps() == before
    measure(folder.path, texts)
    assert len(folder.tracked_later()) == 3
    with pytest.raises(InputError, match=r"no spec\.json"):
        measure(tmp_path / "nowhere", texts)


def test_what_is_measured_after_the_fact_is_the_run_that_was_trained(small_npz: Path, tmp_path: Path) -> None:
    """On other data, or with other parts, the numbers would be those of nothing that there ever was."""
    data = shutil.copyfile(small_npz, tmp_path / "data.npz")
    folder = run(make_spec("sgd", data=f"npz:{data}", model="mlp:width=8", epochs=1, batch_size=16), tmp_path / "run")
    header = tmp_path / "run" / "spec.json"
    told = header.read_text()
    for was, now, says in (("width", "widht", "Unknown option 'widht'"), ("mlp", "mlq", "Unknown model 'mlq'")):
        header.write_text(told.replace(f'"{was}"', f'"{now}"'))
        with pytest.raises(InputError, match=rf"{says}.*It stands in .*spec\.json, which is damaged"):
            measure(folder.path, ["quality"])
    header.write_text(told)
    arrays = dict(np.load(data))
    np.savez(data, **{**arrays, "x_test": arrays["x_test"] + 1})
    with pytest.raises(InputError, match=r"Expected the data that .*run was trained on, but npz.* has changed since"):
        measure(folder.path, ["quality"])


def test_asking_for_more_makes_the_run_anew_and_asking_for_less_does_not(small_npz: Path, tmp_path: Path) -> None:
    spec = make_spec("sgd", data=f"npz:{small_npz}", model="mlp:width=8", epochs=1, batch_size=16)
    run(spec, tmp_path)
    tracking = Tracking(read_track("margins"))
    assert Job(spec, tmp_path).is_done
    assert not Job(spec, tmp_path, tracking=tracking).is_done
    folder = run(spec, tmp_path, tracking=tracking)
    assert {record["tracker"] for record in folder.tracked()} == {"quality", "margins"}
    made = (tmp_path / "done.json").stat().st_mtime_ns
    assert Job(spec, tmp_path).is_done
    run(spec, tmp_path)
    assert (tmp_path / "done.json").stat().st_mtime_ns == made
    assert folder.tracking == tracking
