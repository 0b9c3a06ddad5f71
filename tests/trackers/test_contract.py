"""Watching must not change the run."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import surefoot.experiment as experiment
from surefoot.experiment import run
from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.studies.compare import make_spec
from surefoot.train.tracker import Horizon


def weights(
    small_npz: Path, out: Path, trackers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> dict[str, torch.Tensor]:
    monkeypatch.setattr(experiment, "TRACKED", trackers)
    spec = make_spec("csam", data=f"npz:{small_npz}", model="cnn:width=2,dropout=0.3", epochs=2, batch_size=16)
    run(spec, out)
    (kept,) = (out / "checkpoint").glob("step-*")
    return load_file(kept / "model.safetensors")


class Noisy:
    """A tracker without manners: it draws, trains, and leaves gradients behind."""

    name = "noisy"

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
    parts = dict(TRACKERS._parts)
    monkeypatch.setattr(TRACKERS, "_parts", parts)

    @TRACKERS.register("noisy")
    def build(horizon: Horizon) -> Noisy:
        """Draw from every generator."""
        return Noisy()

    return "noisy"


@pytest.mark.parametrize("name", [part.name for part in TRACKERS])
def test_a_run_with_it_equals_a_run_without(
    name: str, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = weights(small_npz, tmp_path / "plain", (), monkeypatch)
    watched = weights(small_npz, tmp_path / "watched", (name,), monkeypatch)
    assert all(torch.equal(plain[key], watched[key]) for key in plain)


def test_even_a_tracker_without_manners_changes_nothing(
    noisy: str, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = weights(small_npz, tmp_path / "plain", (), monkeypatch)
    watched = weights(small_npz, tmp_path / "watched", (noisy,), monkeypatch)
    assert all(torch.equal(plain[key], watched[key]) for key in plain)
