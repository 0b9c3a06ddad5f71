"""What every registered tracker must do; a new one is found here without an edit."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from surefoot.errors import InputError, OptionError
from surefoot.experiment import run
from surefoot.moment import Horizon, Moment
from surefoot.records import RunFolder
from surefoot.registry import TRACKERS
from surefoot.schema import Tracking
from surefoot.studies.compare import make_spec
from surefoot.trackers import PRESETS, read_track

NAMES = [part.name for part in TRACKERS]
OF_LOGITS = ("quality", "objective", "margins", "step_facts", "tce")
MODEL = "cnn:width=2,dropout=0.3"


def trained(
    small_npz: Path, out: Path, trackers: tuple[str, ...], method: str = "csam", **options: object
) -> RunFolder:
    spec = make_spec(method, data=f"npz:{small_npz}", model=MODEL, epochs=2, batch_size=16)
    return run(spec, out, tracking=Tracking(trackers), **options)


def weights(folder: RunFolder) -> dict[str, torch.Tensor]:
    (kept,) = folder.checkpoints.glob("step-*")
    return load_file(kept / "model.safetensors")


def method_for(name: str) -> str:
    return "sam:base=adamw" if name == "preconditioned_sharpness" else "csam"


def often(name: str) -> str:
    """A tracker every few steps, on few examples where it lets us choose."""
    options = TRACKERS[name].options
    few = {"examples": 24, "probe": 12}
    return f"{name}:every=4" + "".join(f",{key}={value}" for key, value in few.items() if key in options)


class Noisy:
    """A tracker without manners: it draws, trains, and leaves gradients behind."""

    def __init__(self, horizon: Horizon) -> None:
        pass

    def due(self, step: int) -> bool:
        return True

    def measure(self, moment: Moment) -> dict[str, float]:
        torch.rand(3), np.random.rand(), random.random()
        moment.model.eval()
        moment.model(moment.splits.train.inputs[:4]).sum().backward()
        return {"noisy/value": 1.0}


@pytest.fixture
def noisy(monkeypatch: pytest.MonkeyPatch) -> str:
    TRACKERS.load()
    monkeypatch.setattr(TRACKERS, "_parts", dict(TRACKERS._parts))
    TRACKERS.register("noisy")(Noisy)
    return "noisy"


@pytest.fixture(scope="module")
def plain(small_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, torch.Tensor]]:
    methods = ("csam", "sam:base=adamw")
    return {m: weights(trained(small_npz, tmp_path_factory.mktemp("plain"), (), m)) for m in methods}


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_it_equals_a_run_without_and_goes_on_to_the_same_records(
    name: str, small_npz: Path, tmp_path: Path, plain: dict[str, dict[str, torch.Tensor]]
) -> None:
    method = method_for(name)
    whole = trained(small_npz, tmp_path / "whole", (often(name),), method)
    watched = weights(whole)
    assert all(torch.equal(plain[method][key], watched[key]) for key in watched)

    class Killed(Exception):
        pass

    def kill(step: int, n_steps: int, loss: float) -> None:
        if step == 7:
            raise Killed

    options = {"checkpoint_every": 0, "on_progress": kill}
    with pytest.raises(Killed):
        trained(small_npz, tmp_path / "killed", (often(name),), method, **options)
    killed = trained(small_npz, tmp_path / "killed", (often(name),), method)
    assert (killed.path / "steps.jsonl").read_bytes() == (whole.path / "steps.jsonl").read_bytes()
    records = [record for record in whole.steps() if record.get("tracker") == name]
    assert [record["step"] for record in records][-3:] == [4, 8, 12]
    for record in records:
        assert "failed" not in record
        values = [value for key, value in record.items() if "/" in key]
        assert values
        if name not in OF_LOGITS and TRACKERS[name].options.keys() & {"examples", "batches", "probe"}:
            assert [key for key in record if key.rpartition("/")[2] in ("examples", "batches")]  # on how many
        assert all(value is None or math.isfinite(value) for value in values)


def test_even_a_tracker_without_manners_changes_nothing(
    noisy: str, small_npz: Path, tmp_path: Path, plain: dict[str, dict[str, torch.Tensor]]
) -> None:
    watched = weights(trained(small_npz, tmp_path, (noisy,)))
    assert all(torch.equal(plain["csam"][key], watched[key]) for key in watched)


def test_presets_hold_one_another() -> None:
    cheap, standard, full = (set(read_track(preset)) for preset in PRESETS)
    assert cheap < standard < full
    assert {text.partition(":")[0] for text in full} == set(NAMES)
    assert read_track("full")[: len(cheap)] == read_track("cheap")


def test_trackers_as_people_type_them() -> None:
    assert read_track("cheap,gn_sharpness:every=5,examples=100")[-1] == "gn_sharpness:every=5,examples=100,tol=0.001"
    assert "gn_sharpness:every=5,examples=256,tol=0.001" in read_track("standard,gn_sharpness:every=5")
    with pytest.raises(InputError, match="Did you mean 'kappa'"):
        read_track("kapa")
    with pytest.raises(InputError, match="Write --track cheap or"):
        read_track(" ")
    with pytest.raises(OptionError, match="Expected every ≥ 1 step, but got 0"):
        TRACKERS.build(TRACKERS.parse("kappa:every=0"), Horizon(10, 5))
    with pytest.raises(InputError, match="share of training time"):
        Tracking(("quality",), budget=0.0)
