"""Names from files reach the terminal as text: they move no cursor and begin no line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surefoot.harmless import harmless, harmless_values
from tests.conftest import RunCommand
from tests.patience import PATIENCE

EVIL = "cat\n\x1b[2J\x1b[32mwell calibrated\x9b1m\u202e"


def assert_tame(said: str) -> None:
    assert "unexpected" not in said, said
    assert not {"\x1b", "\x9b", "\u202e"} & set(said), said
    assert not any(line.lstrip("│ ").startswith("well calibrated") for line in said.splitlines()), said


def write(path: Path, **more: object) -> None:
    draws = np.random.default_rng(0)
    arrays = {"logits": draws.normal(size=(80, 3)), "labels": draws.integers(0, 3, 80), **more}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def test_all_that_a_terminal_obeys_is_shown() -> None:
    assert harmless("a\nb\tc\x1b[0m\x7f\x9b\u2028\udcff\ud800") == r"a\nb\tc\x1b[0m\x7f\x9b\u2028\xff\ud800"
    assert harmless("größe–ⅲ 猫 😀") == "größe–ⅲ 猫 😀"
    assert harmless("a\nb\r", lines=True) == "a\nb\\r"
    assert harmless_values({"a\n": [("b\n", 1.0, None)]}) == {"a\\n": [("b\\n", 1.0, None)]}


@pytest.mark.parametrize("name", ["audit", "calibrate", "conformal", "check"])
def test_names_of_classes_groups_and_files(tmp_path: Path, name: str, run_command: RunCommand) -> None:
    names, groups = np.array([EVIL, "b", "c"]), np.where(np.arange(80) % 2, EVIL, "plain")
    write(tmp_path / f"x{EVIL}.npz", class_names=names, **{"kind\x1b[1m\nwell calibrated": groups})
    more = {"check": ["--max-ece", "0.01"], "calibrate": ["--method", "temperature"]}.get(name, [])
    found = run_command(name, f"x{EVIL}.npz", *more)
    assert found.returncode in (0, 1), found.stderr
    assert_tame(found.stdout + found.stderr)


def test_names_in_errors(run_command: RunCommand) -> None:
    for words in (["audit", f"{EVIL}.npz"], ["report", EVIL], ["train", "--out", "x", "--method", EVIL]):
        found = run_command(*words)
        assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
        assert_tame(found.stdout + found.stderr)


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/x\xff.npz"
    write(tmp_path / "x.npz")
    os.rename(os.fsencode(tmp_path / "x.npz"), place)
    start = [sys.executable, "-P", "-m", "surefoot", "audit", place]
    found = subprocess.run(start, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False)
    assert found.returncode == 0, found.stderr
    assert b"x\\xff.npz" in found.stdout
