"""Some of the crash points of every command; ``benchmarks/torture.py --only crashes`` goes through all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import surefoot
from tests.crashes.commands import COMMANDS
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see which file is synced")
# Which crashes are made: the first of them, and how many are passed over to the next.
SOME = {
    "train": (3, 90),
    "compare": (41, 200),
    "study": (67, 210),
    "report": (9, 20),
    "audit": (1, 4),
    "calibrate": (2, 4),
    "calibrate, tensors": (1, 4),
    "repair csv.gz": (3, 6),
    "check": (5, 11),
}


def test_after_a_crash_the_same_command_ends_with_the_same_bits(small_npz: Path, tmp_path: Path) -> None:
    path = os.pathsep.join(map(str, (Path(surefoot.__file__).parents[1], ROOT)))
    words = [sys.executable, "-m", "tests.crashes.points", str(tmp_path), str(small_npz)]
    words += [f"{name}={first}+{every}" for name, (first, every) in SOME.items()]
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["name"] for each in found] == list(SOME)
    assert [fault for each in found for fault in each["faults"]] == []
    assert [file for each in found for file in each["around"]] == []  # nothing writes around the doors
    assert all(each["tried"] for each in found)
    assert set(SOME) <= set(COMMANDS)


def test_a_crash_that_loses_something_is_found(small_npz: Path, tmp_path: Path) -> None:
    """The layer itself: a command that writes in place is caught."""
    code = (
        "import pathlib, sys\n"
        "from tests.crashes import points, nursery\n"
        "from surefoot.calibrators import _base\n"
        "nursery.raise_children()\n"
        "_base.write_text = lambda path, text: path.write_text(text)\n"
        "found = points.torture('calibrate', pathlib.Path(sys.argv[1]) / 'x', pathlib.Path(sys.argv[2]))\n"
        "print(len(found.faults), *found.faults, sep='\\n')\n"
    )
    path = os.pathsep.join(map(str, (Path(surefoot.__file__).parents[1], ROOT)))
    words = [sys.executable, "-c", code, str(tmp_path), str(small_npz)]
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "c.json is neither the old nor the new one" in done.stdout
