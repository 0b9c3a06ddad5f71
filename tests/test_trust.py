"""What is received names no code that runs, and the present folder is no place for Python's own modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surefoot import imported
from surefoot.errors import InputError, UntrustedError
from surefoot.imported import import_function, received
from surefoot.prediction_sets import load_sets
from tests.conftest import RunCommand
from tests.patience import PATIENCE

_MAIN = "from surefoot.cli import main; main()"


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "_said", set())


def command(folder: Path, *words: str, as_module: bool = False) -> subprocess.CompletedProcess[str]:
    start = [sys.executable, "-m", "surefoot"] if as_module else [sys.executable, "-P", "-c", _MAIN]
    return subprocess.run([*start, *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("as_module", [False, True])
def test_a_file_beside_the_predictions_is_not_taken_for_a_module(tmp_path: Path, as_module: bool) -> None:
    draws = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", logits=draws.normal(size=(40, 3)), labels=draws.integers(0, 3, 40))
    for name in ("timeit", "jinja2", "torch", "zipfile", "typer"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write({name!r})\n")
    found = command(tmp_path, "audit", "x.npz", as_module=as_module)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert "Read: x.npz" in found.stdout, found.stderr


def test_own_parts_are_found_in_the_present_folder_behind_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_parts_here.py").write_text("import sys\nPATH = list(sys.path)\ndef part(): pass\n")
    (tmp_path / "colorsys.py").write_text("raise SystemExit('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = list(sys.path)
    part = import_function("loss", "my_parts_here:part", [])
    assert [*before, os.getcwd()] == sys.modules[part.__module__].PATH
    assert import_function("loss", "colorsys:rgb_to_hsv", []).__module__ == "colorsys"
    assert sys.path == before


def test_a_received_file_names_nothing_that_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "received_part.py").write_text("raise SystemExit('it ran')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UntrustedError, match=r"runs/theirs, but it names the loss .*--trust"), received("runs/theirs"):
        import_function("loss", "received_part:part", [])
    with pytest.raises(UntrustedError), received("runs/theirs"):
        import_function("loss", "os:system", [])  # imported long since, and still not to be called
    with received("runs/theirs", trust=True):
        assert import_function("loss", "os:getcwd", []) is os.getcwd
    with received("runs/theirs"):  # somebody here has asked for it
        assert import_function("loss", "os:getcwd", []) is os.getcwd


def test_saved_sets_name_nothing_that_is_imported(tmp_path: Path) -> None:
    values = {"prediction_sets": "os:system", "coverage": 0.9}
    (tmp_path / "sets.json").write_text(json.dumps(values))
    with pytest.raises(InputError):
        load_sets(tmp_path / "sets.json")


@pytest.mark.parametrize("part", ["model", "data", "loss"])
def test_measure_and_shift_run_nothing_that_a_folder_names(
    tmp_path: Path, part: str, run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    small = ["--data", "digits", "--model", "mlp:width=4", "--epochs", "1", "--method", "sgd"]
    assert run_command("train", "--out", "theirs", *small).returncode == 0
    header = json.loads((tmp_path / "theirs/spec.json").read_text())
    holder = header["spec"]["method"] if part == "loss" else header["spec"]
    holder[part] = {"name": "evil:part", "options": {}}
    (tmp_path / "theirs/spec.json").write_text(json.dumps(header))
    (tmp_path / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\ndef part(): pass\n"
    )
    words = {"measure": ["--track", "cheap"], "shift": ["--corruptions", "fog", "--severities", "1"], "report": []}
    for name, more in words.items():
        found = run_command(name, "theirs", *more)
        assert not (tmp_path / "ran").exists()
        if name != "report":  # which needs no part to be built
            assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
            assert "'evil:part'" in found.stderr
            assert "--trust" in found.stderr
    run_command("measure", "theirs", "--track", "cheap", "--trust")
    assert (tmp_path / "ran").exists()
