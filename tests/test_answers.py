"""The answer first: a page or file that cannot be written takes no verdict along."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors import SafetensorError

from surefoot.cli import main
from surefoot.errors import RunError
from surefoot.sources.scores import FittedTo
from surefoot.studies.engine import _readable
from surefoot.troubles import told
from tests.runs import fake_run

SMALL = "--model mlp:width=4 --epochs 1 --batch-size 45"


def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["surefoot", *words.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    found = capsys.readouterr()
    return int(ended.value.code or 0), found.out, found.err


def fill(monkeypatch: pytest.MonkeyPatch, *endings: str) -> None:
    """Let the disk be full for files with these endings."""
    replace = os.replace

    def refuse(source: object, target: object) -> None:
        if str(target).endswith(endings):
            raise OSError(28, os.strerror(28), str(target))
        replace(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", refuse)


@pytest.fixture
def preds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    logits = draws.normal(size=(120, 3))
    np.savez("ok.npz", logits=logits, labels=(logits + draws.normal(size=logits.shape)).argmax(1))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "ending", "answer"),
    [
        ("calibrate ok.npz --method temperature --out c.json", "c.json", "temperature as you said"),
        ("check ok.npz --max-ece 0.9 --markdown out.md", "out.md", "ECE"),
        ("check ok.npz --max-ece 0.9 --save-baseline b.json", "b.json", "ECE"),
        ("audit ok.npz --out page.html", "page.html", "Read: ok.npz"),
    ],
)
def test_files_of_predictions(
    words: str,
    ending: str,
    answer: str,
    preds: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(monkeypatch, ending)
    code, out, err = say(capsys, monkeypatch, words)
    assert code == 1
    assert answer in out
    assert "Saved:" not in out
    assert err.startswith("Error: Expected to read or write ")
    assert "No space left on device. Make room on the disk" in err
    assert sorted(path.name for path in preds.iterdir()) == ["ok.npz"]


def test_comparisons(
    small_npz: Path, preds: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"compare --methods sgd,sam --seeds 1 --jobs 1 --out runs --data npz:{small_npz} {SMALL}"
    assert say(capsys, monkeypatch, words)[0] == 0
    (preds / "runs" / "report.html").unlink()
    fill(monkeypatch, "report.html")
    code, out, err = say(capsys, monkeypatch, words)
    assert code == 1
    assert "ECE" in out
    assert "Report:" not in out
    assert "Make room on the disk" in err
    found = say(capsys, monkeypatch, f"{words} --json")[1]
    assert json.loads(found)["report"] == "runs/report.html"


def test_a_full_disk_in_a_worker_is_told_as_one() -> None:
    error = _readable(OSError(28, os.strerror(28), "steps.jsonl"))
    assert isinstance(error, RunError)
    assert "No space left on device. Make room on the disk, then run the same command again" in str(error)


def test_a_full_disk_that_safetensors_tells_of_is_told_as_one() -> None:
    message = "Error while serializing: I/O error: No space left on device (os error 28)"
    found = told(SafetensorError(message))
    assert found is not None
    assert found[0].startswith("Expected to read and write, but the system refuses: No space left on device. Make room")
    assert told(SafetensorError("Error while deserializing header")) is None


def test_what_a_changed_calibrator_says_of_its_rows_is_passed_over() -> None:
    found = FittedTo.of({"n_classes": float("nan"), "class_names": 3, "scores": None, "kind": []})
    assert (found.n_classes, found.class_names, found.scores, found.kind) == (None, (), (), None)


def test_json_obeys_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What would turn text round or begin a command in a terminal is written as JSON writes it, and read as it was."""
    monkeypatch.chdir(tmp_path)
    fake_run(tmp_path / "runs", method="a\u202e\x9b2Jb")
    code, out, _ = say(capsys, monkeypatch, "report runs --json")
    assert code == 0
    assert not {"\u202e", "\x9b"} & set(out)
    assert json.loads(out)
