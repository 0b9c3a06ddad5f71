"""What a run holds of its measures, what is computed when it is asked for, and what reaches table, page and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.evaluate import DIAGRAMS, SHOWN, evaluate, key_of, measures_of, value_of
from surefoot.metric_keys import read_metrics
from surefoot.metrics import brier, ece, mce
from surefoot.records import RunFolder
from surefoot.report.choice import to_json
from surefoot.report.page import write_page
from surefoot.report.summary import summarise
from surefoot.schema import SPLITS, Predictions
from tests.conftest import RunCommand
from tests.runs import fake_run

OWN = '''
def largest(probs, labels, *, power: float = 1.0):
    """Mean of the largest probability."""
    return (probs.amax(1) ** power).mean()

largest.label, largest.unit, largest.lower_is_better = "mean confidence", "%", False
'''


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run with real predictions, measured as at the end of a training."""
    made = fake_run(tmp_path)
    draw = np.random.default_rng(0)
    for split in SPLITS:
        logits = draw.normal(size=(80, 3)).astype(np.float32)
        made.write_predictions(Predictions(logits, draw.integers(0, 3, 80), split))
    evaluate(made, 20)
    return made


def probs_of(run: RunFolder, split: str = "test") -> tuple[np.ndarray, np.ndarray]:
    found = run.predictions(split)
    rows = np.exp(found.logits.astype(np.float64))
    return rows / rows.sum(1, keepdims=True), found.labels


def test_a_run_holds_what_its_page_shows_and_no_more(run: RunFolder) -> None:
    held = {(record["split"], key_of(record)) for record in run.measures()}
    plain = [key for key in SHOWN if "@" not in key]
    assert held == {
        *(("test", key) for key in (*SHOWN, *DIAGRAMS, "constant_accuracy")),
        *(("calibration", key) for key in (*plain, "constant_accuracy")),
    }
    assert value_of(run, "ece") == pytest.approx(float(ece(*probs_of(run))))


def test_what_is_asked_for_is_computed_once_and_kept(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = read_metrics("mce, ece:n_bins=5, brier@isotonic")
    first = measures_of(run, keys)
    assert first["mce"]["value"] == pytest.approx(float(mce(*probs_of(run))))
    assert first["ece:n_bins=5"]["value"] == pytest.approx(float(ece(*probs_of(run), n_bins=5)))
    assert first["ece:n_bins=5"]["label"] == "ECE, n_bins=5"
    assert first["brier@isotonic"]["label"] == "Brier score after isotonic"
    assert all(record["run"] == run.run_id and record["passes"] == 20 for record in first.values())
    monkeypatch.setattr("surefoot.evaluate._compute", lambda *_: pytest.fail("computed again"))
    assert measures_of(RunFolder(run.path), keys) == first


def test_other_splits_are_measured_when_asked_for(run: RunFolder) -> None:
    assert value_of(run, "brier", split="train") == pytest.approx(float(brier(*probs_of(run, "train"))))
    assert sum(measures_of(run, ["reliability"], split="train")["reliability"]["bins"]["count"]) == 80


def test_a_run_without_predictions_gives_what_it_holds(tmp_path: Path) -> None:
    bare = fake_run(tmp_path)
    assert value_of(bare, "ece") == 0.05
    assert value_of(bare, "mce") is None


def test_columns_are_those_asked_for_in_table_json_and_page(run: RunFolder, tmp_path: Path) -> None:
    summary = summarise([run], read_metrics("smooth_ece,nll@temperature"))
    assert [column.heading for column in summary.columns(brief=True)] == ["smooth ECE %", "NLL after T"]
    (row,) = to_json(summary)["rows"]
    assert {"smooth_ece", "nll@temperature"} <= set(row)
    assert not {"accuracy", "ece", "brier"} & set(row)
    assert set(row["calibration"]) == {"smooth_ece"}
    page = write_page(summary, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "smooth ECE %" in page
    assert "smoothed by a kernel instead of cut into bins" in page  # what the word means
    assert "Brier score %" not in page


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("breir", UnknownNameError, "Unknown metric 'breir'. Did you mean 'brier'"),
        ("ece:bins=3", OptionError, "Unknown option 'bins' for 'ece', which takes n_bins"),
        ("ece@temprature", InputError, "Unknown calibrator 'temprature'. Did you mean 'temperature'"),
    ],
)
def test_what_does_not_exist_is_refused(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read_metrics(text)


def test_a_metric_of_ones_own_reaches_every_command(run: RunFolder, tmp_path: Path, run_command: RunCommand) -> None:
    """By import path, without registration: the report of runs that are there, and the audit of a file."""
    (tmp_path / "mine.py").write_text(OWN)
    told = run_command("report", str(run.path), "--metrics", "ece,mine:largest:power=2", "--out", "own.html")
    assert told.returncode == 0, told.stderr
    assert "mean confidence, power=2 %" in told.stdout
    assert "Mean of the largest probability." in (tmp_path / "own.html").read_text(encoding="utf-8")
    file = str(run.path / "predictions" / "test.npz")
    found = json.loads(run_command("audit", file, "--metrics", "nll,mine:largest", "--no-page", "--json").stdout)
    measures = found["audits"][0]["measures"]
    assert list(measures) == ["nll", "mine:largest"]
    assert measures["mine:largest"]["estimate"] == pytest.approx(probs_of(run)[0].max(1).mean())
    assert measures["mine:largest"]["label"] == "mean confidence"
    wrong = run_command("compare", "--metrics", "breir", "--out", "none")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "none").exists()
