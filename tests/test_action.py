"""The composite action: its steps are run as GitHub would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.auditing.made import made
from tests.patience import PATIENCE

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def steps(folder: Path, **inputs: str) -> tuple[int, str, str, str]:
    """Run all steps; return the exit code, what was printed, the summary and the outputs."""
    known = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
    assert set(inputs) <= set(known)
    values = {**known, **inputs}
    summary, output = folder / "summary.md", folder / "output.txt"
    for path in (summary, output):
        path.write_text("before\n")
    base = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output), "OMP_NUM_THREADS": "1"}
    base["PATH"] = f"{Path(sys.executable).parent}:{base['PATH']}"
    base["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), *filter(None, [base.get("PYTHONPATH")])])
    code, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        own = {name: fill(text, values) for name, text in step["env"].items()}
        assert "${{" not in step["run"]  # what users write reaches the script as data only
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(script, env={**base, **own}, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        code, printed = done.returncode, printed + done.stdout + done.stderr
        if code:
            break
    return code, printed, summary.read_text(), output.read_text()


def fill(text: str, values: dict[str, str]) -> str:
    """Put inputs in their places, as far as this action uses them."""
    name, either, _ = text.removeprefix("${{ inputs.").removesuffix(" }}").partition(" || github.action_path")
    return values[name] or (str(ROOT) if either else "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logits, labels = made(600)
    np.savez(tmp_path / "good one.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "bad.npz", logits=3 * logits, labels=labels)
    return tmp_path


def test_the_action_is_a_composite_one_whose_inputs_and_steps_are_whole() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert {"file", "args", "baseline", "save-baseline"} <= set(ACTION["inputs"])
    assert ACTION["inputs"]["file"]["required"] is True
    assert ACTION["outputs"]["broken"]["value"] == "${{ steps.check.outputs.broken }}"
    used: list[Any] = [text for step in ACTION["runs"]["steps"] for text in step["env"].values()]
    assert all(text.startswith("${{ inputs.") for text in used)
    assert all("description" in about for about in ACTION["inputs"].values())


def test_the_steps_pass_and_break_and_write_the_summary(folder: Path) -> None:
    passed = steps(
        folder, file="good one.npz", args="--max-ece 0.2\n --min-accuracy 0.3", **{"save-baseline": "main.json"}
    )
    assert passed[0] == 0, passed[1]
    assert passed[2].startswith("before\n### Calibration gate of good one.npz: not broken\n")
    assert passed[3] == "before\nbroken=false\n"
    assert (folder / "main.json").is_file()
    broken = steps(folder, file="bad.npz", baseline="main.json")
    assert broken[0] == 1, broken[1]
    assert "| NLL no worse than main.json |" in broken[2]
    assert broken[3] == "before\nbroken=true\n"


def test_a_file_that_cannot_be_read_is_no_broken_gate(folder: Path) -> None:
    code, printed, summary, output = steps(folder, file="no.npz", args="--max-ece 0.05")
    assert code == 2
    assert "no.npz does not exist" in printed
    assert (summary, output) == ("before\n", "before\n")
