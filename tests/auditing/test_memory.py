"""A large file is read in pieces: memory stays below twice its size, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which only Linux has"
)

READ = "from surefoot.auditing import audit as read"
GREEDY = """
import numpy as np
def read(path):
    with np.load(path) as file:
        return [file[key].astype(np.float64) for key in file], file["logits"]
"""
MEASURE = """
import sys
def peak():
    # VmHWM, not ru_maxrss: that one starts at the peak of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
read(sys.argv[1])  # everything is imported and has run once
before = peak()
read(sys.argv[2])
print(peak() - before)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((2_000_000, 10), dtype=np.float32), rng.integers(0, 10, 2_000_000)
    np.savez(folder / "large.npz", logits=logits, labels=labels)
    np.savez(folder / "small.npz", logits=logits[:100], labels=labels[:100])
    return folder


def needed(folder: Path, reader: str) -> float:
    """Return the memory that reading the large file takes, by its size."""
    large = folder / "large.npz"
    words = [sys.executable, "-c", reader + MEASURE, str(folder / "small.npz"), str(large)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) / large.stat().st_size


def test_two_million_rows_need_less_than_twice_the_file(folder: Path) -> None:
    assert 0 < needed(folder, READ) < 2


def test_somebody_who_loads_everything_would_be_found_out(folder: Path) -> None:
    assert needed(folder, GREEDY) > 2
