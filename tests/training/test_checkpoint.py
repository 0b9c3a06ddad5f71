from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.errors import InputError, RunError
from surefoot.records import checkpoints
from surefoot.seeding import random_state, set_random_state
from surefoot.training.checkpoint import load_checkpoint, load_checkpoints, pack, remove_others, save_checkpoint, unpack


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
    assert names == ["checksums.json", "model.safetensors", "state.json", "state.safetensors"]


def test_the_newest_stays_and_a_half_written_one_is_ignored(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 9, {"w": torch.ones(1)}, {"step": 9})
    save_checkpoint(tmp_path, 10, {"w": torch.ones(1)}, {"step": 10})
    (tmp_path / ".step-00000011.1.tmp").mkdir()
    assert sorted(path.name for path in tmp_path.glob("step-*")) == ["step-00000009", "step-00000010"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["step"] == 10


KILLED_AMID_OF_A_FILE = """
import resource, signal, sys
from pathlib import Path
import torch
from surefoot.training.checkpoint import save_checkpoint

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
save_checkpoint(Path(sys.argv[1]), 10, {"w": torch.ones(10_000)}, {"step": 10})
"""


def test_what_a_kill_left_of_a_file_goes_and_what_somebody_put_there_stays(tmp_path: Path) -> None:
    """The kernel kills the process because the weights take more than 1,000 bytes."""
    killed = subprocess.run([sys.executable, "-c", KILLED_AMID_OF_A_FILE, str(tmp_path)])
    assert killed.returncode == -signal.SIGXFSZ
    (half,) = tmp_path.iterdir()
    assert len(list(half.iterdir())) == 1
    (half / "notes.txt").write_text("mine")
    for step in (10, 11, 12):
        save_checkpoint(tmp_path, step, {"w": torch.ones(1)}, {"step": step})
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name in names if "step-00000010" in name] == ["step-00000010/notes.txt"]
    assert not [name for name in names if ".tmp" in name]


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


def test_a_disk_that_cannot_keep_a_rename_leaves_the_checkpoint_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, 5, {"w": torch.ones(1)}, {"try": 1})

    def fail(path: Path) -> None:
        if path == tmp_path:
            raise OSError(28, "no space")

    monkeypatch.setattr("surefoot.training.checkpoint.sync_folder", fail)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(tmp_path, 5, {"w": torch.ones(1)}, {"try": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000005"]
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["try"] == 1


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
    assert [state["step"] for _, state in load_checkpoints(tmp_path)] == [2, 3]


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


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json", "member-0000.safetensors"])
def test_a_flipped_bit_is_refused_by_name_and_says_where_to_go_on(tmp_path: Path, name: str) -> None:
    for step in (1, 2):
        state = {"step": step, "m": torch.ones(3)}
        save_checkpoint(tmp_path, step, {"w": torch.ones(8)}, state, [{"w": torch.zeros(4)}])
    damaged = tmp_path / "step-00000002" / name
    content = bytearray(damaged.read_bytes())
    content[-3] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} as it was written, but it is damaged.*step-00000001.*--fresh"):
        load_checkpoint(tmp_path)
    shutil.rmtree(tmp_path / "step-00000002")
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["step"] == 1
    damaged = tmp_path / "step-00000001" / name
    damaged.unlink()
    if name != "state.json":  # without which it counts as none
        with pytest.raises(InputError, match=rf"{name} as it was written, but it is missing\. Begin anew with --fresh"):
            load_checkpoint(tmp_path)


def test_a_checkpoint_of_an_older_version_has_no_hashes(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"w": torch.ones(8)}, {"step": 1})
    (tmp_path / "step-00000001" / "checksums.json").unlink()
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1]["step"] == 1


def test_the_last_checkpoint_is_alone_also_after_a_kill_while_others_are_removed(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"w": torch.ones(1)}, {"step": step})
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["2", "3"]
    remove_others(tmp_path, tmp_path / "step-00000003", lambda step: False, is_last=True)
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["3"]
    save_checkpoint(tmp_path, 4, {"w": torch.ones(1)}, {"step": 4}, is_last=True)
    assert [path.name[-1] for path in checkpoints(tmp_path)] == ["4"]
