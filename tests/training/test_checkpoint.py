from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.errors import RunError
from surefoot.seeding import random_state, set_random_state
from surefoot.training.checkpoint import load_checkpoint, load_checkpoints, pack, save_checkpoint, unpack


def test_a_tree_survives_the_disk(tmp_path: Path) -> None:
    tied = torch.arange(3.0)
    state = {0: {"a": tied, "b": tied}, "c": [1, 2.5, None, True, "x"], "d": (torch.tensor(7), {})}
    save_checkpoint(tmp_path, 3, {"w": tied}, state)
    found = load_checkpoint(tmp_path)
    assert found is not None
    weights, back = found
    assert torch.equal(weights["w"], tied)
    assert torch.equal(back[0]["b"], tied)
    assert back["c"] == state["c"]
    assert isinstance(back["d"], tuple)
    assert back["d"][0] == 7


def test_nothing_is_pickled(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="but got object"):
        pack({"a": object()}, {})
    save_checkpoint(tmp_path, 1, {"w": torch.ones(1)}, {})
    names = sorted(path.name for path in (tmp_path / "step-00000001").iterdir())
    assert names == ["model.safetensors", "state.json", "state.safetensors"]


def test_the_newest_stays_and_a_half_written_one_is_ignored(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 9, {"w": torch.ones(1)}, {"step": 9})
    save_checkpoint(tmp_path, 10, {"w": torch.ones(1)}, {"step": 10})
    (tmp_path / ".step-00000011.1.tmp").mkdir()
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000010"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["step"] == 10


def test_a_step_that_is_saved_again_takes_the_place_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, 5, {"w": torch.ones(1)}, {"try": 1})
    removed: list[Path] = []

    def remove(path: Path, heir: Path | None) -> None:
        removed.append(path)
        found = load_checkpoint(tmp_path)  # whole at any time at which files are being removed
        assert found is not None
        assert not path.exists() or found[1]["try"] == 2

    monkeypatch.setattr("surefoot.training.checkpoint.remove_checkpoint", remove)
    save_checkpoint(tmp_path, 5, {"w": torch.ones(1)}, {"try": 2})
    assert [path.suffix for path in removed] == [".old"]


def test_what_somebody_put_beside_checkpoints_stays(tmp_path: Path) -> None:
    for name in ("best", "step-final", "step-7", ".cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"w": torch.ones(1)}, {"step": step})
        (tmp_path / f"step-{step:08d}" / "mine.txt").write_text("mine")
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name in found if "0000000" not in name] == [
        ".cache/model.safetensors",
        "best/model.safetensors",
        "notes.txt",
        "step-7/model.safetensors",
        "step-final/model.safetensors",
    ]
    assert [name for name in found if "0000000" in name and "mine" in name] == [
        f"step-{step:08d}/mine.txt" for step in (1, 2, 3)
    ]
    newest = load_checkpoint(tmp_path)
    assert newest is not None
    assert newest[1]["step"] == 3
    assert [state["step"] for _, state in load_checkpoints(tmp_path)] == [3]


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "no") is None


def test_all_generators_are_restored() -> None:
    tensors: dict[str, torch.Tensor] = {}
    packed = pack(random_state(), tensors)

    def draw() -> tuple[float, float, float]:
        return torch.rand(()).item(), float(np.random.randn()), random.random()

    first = draw()
    draw()
    set_random_state(unpack(packed, tensors))
    assert draw() == first
