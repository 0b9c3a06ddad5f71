"""Fixtures that several rooms share."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from surefoot.cli import main
from surefoot.data._arrays import splits_from_arrays
from surefoot.schema import Splits

torch.set_num_threads(1)
# How long a test takes says how busy the machine is, not whether the code is right.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
# Under nohup, or in the background of a script, these are ignored, and would be by every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def small_arrays(n_train: int = 90, n_test: int = 60, classes: int = 3, seed: int = 0) -> dict[str, np.ndarray]:
    """Noisy 6×6 pictures: class k is bright in stripe k, with a few labels wrong."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for split, n in (("train", n_train), ("calibration", n_test), ("test", n_test)):
        labels = np.arange(n) % classes
        pixels = rng.integers(0, 150, (n, 6, 6), dtype=np.uint8)
        for row, label in enumerate(labels):
            pixels[row, 2 * label : 2 * label + 2] += 80
        noisy = np.where(rng.random(n) < 0.1, rng.integers(0, classes, n), labels)
        arrays[f"x_{split}"], arrays[f"y_{split}"] = pixels, noisy
    return arrays


@pytest.fixture(scope="session")
def small_npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.npz"
    np.savez(path, **small_arrays())
    return path


@pytest.fixture
def mypkg(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the parts that the documents name by import path be found."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "own"))


@pytest.fixture(scope="session")
def small_splits() -> Splits:
    return splits_from_arrays(small_arrays(), origin="small")


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


RunCommand = Callable[..., Done]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> RunCommand:
    """Run the command line within this process, which saves the seconds that torch takes to start."""

    def run(*words: str, cwd: Path | None = None) -> Done:
        with monkeypatch.context() as patch:
            patch.chdir(cwd or tmp_path)
            patch.setattr(sys, "argv", ["surefoot", *words])
            patch.setattr(sys, "path", list(sys.path))
            patch.setenv("COLUMNS", "100")
            capsys.readouterr()
            with pytest.raises(SystemExit) as stopped:
                main()
        printed = capsys.readouterr()
        return Done(int(stopped.value.code or 0), printed.out, printed.err)

    return run
