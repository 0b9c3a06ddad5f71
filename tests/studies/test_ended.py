"""A comparison that is ended takes its workers with it, whichever signal ends it, and can be run again at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import surefoot
from tests.patience import PATIENCE
from tests.studies.gate import put_tickets, who_is_there

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")


def start(small_npz: Path, folder: Path) -> subprocess.Popen[str]:
    method = f"tests.studies.gate:waiting:folder={folder}/gate"
    words = ["compare", "--methods", method, "--seeds", "2", "--jobs", "2", "--out", f"{folder}/runs"]
    words += ["--data", f"npz:{small_npz}", "--model", "mlp:width=8", "--epochs", "3", "--batch-size", "16"]
    env = {**os.environ, "PYTHONPATH": f"{Path(surefoot.__file__).parents[1]}{os.pathsep}{ROOT}"}
    return subprocess.Popen(
        [sys.executable, "-m", "surefoot", *words], cwd=folder, env=env, stderr=subprocess.PIPE, text=True
    )


def state(pid: int) -> tuple[str, int] | None:
    """A process's letter and its parent; None where there is no such process."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return words[0], int(words[1])


def children(pid: int) -> set[int]:
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return {other for other in every if (found := state(other)) and found[1] == pid}


def is_alive(pid: int) -> bool:
    found = state(pid)
    return found is not None and found[0] not in "ZX"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP], ids=lambda number: number.name)
def test_workers_end_with_the_comparison(number: signal.Signals, small_npz: Path, tmp_path: Path) -> None:
    """After SIGKILL, which leaves no time to tidy up, the same command goes on at once."""
    put_tickets(tmp_path / "gate", 2)
    with start(small_npz, tmp_path) as first:
        workers = who_is_there(tmp_path / "gate", 2, is_over=lambda: first.poll() is not None)
        started = children(first.pid)
        assert set(workers) < started  # and the one that carries news between them
        first.send_signal(number)
        assert first.wait(PATIENCE) == -number
        end = time.monotonic() + PATIENCE
        while (left := [pid for pid in started if is_alive(pid)]) and time.monotonic() < end:
            time.sleep(0.01)
        for pid in left:  # or they would keep this machine busy
            os.kill(pid, signal.SIGKILL)
        assert not left
    if number is signal.SIGKILL:
        with start(small_npz, tmp_path) as again:
            _, errors = again.communicate()
        assert again.returncode == 0, errors
        assert len(list(tmp_path.glob("runs/*/done.json"))) == 2
