"""Which column says how much a row counts: as told, or the only one that is called so; nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot.auditing import audit, calibrate
from surefoot.errors import InputError
from surefoot.schema import Predictions
from surefoot.sources import open_predictions
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand
from tests.sources.rows import one, weights

N = 90
LOGITS, LABELS = made(N)
PROBS = softmax(LOGITS)
W = np.random.default_rng(0).integers(0, 5, N).astype(float)


def frame(**more: Any) -> pd.DataFrame:
    return pd.DataFrame({"label": LABELS, **{f"prob_{k}": PROBS[:, k] for k in range(3)}, **more})


def write(path: Path, **more: Any) -> Path:
    table = frame(**more)
    if path.suffix == ".npz":
        np.savez(path, probs=PROBS, labels=LABELS, **{name: np.asarray(values) for name, values in more.items()})
    elif path.suffix == ".parquet":
        table.to_parquet(path)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz", "parquet"])
@pytest.mark.parametrize("name", ["weight", "sampleWeight", "Sample Weights"])
def test_the_only_column_that_is_called_so_is_taken_and_said(
    suffix: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 60)  # so there are several chunks
    found = one(write(tmp_path / f"a.{suffix}", **{name: W}))
    assert found.weights == name
    assert f"{name!r} as weights" in found.took
    assert "says how much each row counts; with --no-weights all count alike." in found.notes[0]
    np.testing.assert_array_equal(weights(found), W)
    assert weights(found).dtype == np.float64


@pytest.mark.parametrize("name", ["count", "freq", "multiplicity", "survey_weight"])
def test_others_are_asked_about(name: str) -> None:
    found = one(frame(**{name: W}))
    assert found.weights is None
    assert "as weights" not in found.took
    (note,) = found.notes
    counts = "" if "weight" in name else " --weights-are counts"
    assert note == (
        f"Column {name!r} was not used: every row counts once. Say --weights {name}{counts} if it says how much a row "
        "counts, or --no-weights."
    )
    assert next(found.chunks()).weights is None
    np.testing.assert_array_equal(weights(one(frame(**{name: W}), weights=name)), W)


def test_two_that_could_be_it_are_asked_about() -> None:
    found = one(frame(weight=W, sample_weight=W))
    assert (found.weights, len(found.notes)) == (None, 2)


def test_no_weights() -> None:
    found = one(frame(weight=W, count=W), weights=False)
    assert (found.weights, found.notes) == (None, ())


def test_a_column_by_any_name_and_how_it_counts() -> None:
    found = one(frame(w_i=W, weight=2 * W), weights="w_i", weights_are="counts")
    assert (found.weights, found.weights_are, found.notes) == ("w_i", "counts", ())
    np.testing.assert_array_equal(weights(found), W)


def test_splits_have_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    arrays = {"val_probs": PROBS[:40], "val_labels": LABELS[:40], "val_weights": W[:40]}
    np.savez(path, **arrays, test_probs=PROBS[40:], test_labels=LABELS[40:], test_weights=W[40:])
    found = {each.split: each for each in open_predictions(path)}
    np.testing.assert_array_equal(weights(found["calibration"]), W[:40])
    np.testing.assert_array_equal(weights(found["test"]), W[40:])


def test_arrays_and_predictions_in_memory() -> None:
    held = Predictions(LOGITS, LABELS, "test", weights=W)
    found = one(held)
    np.testing.assert_array_equal(weights(found), W)
    assert found.notes == ()
    report = sf.audit(probs=PROBS, labels=LABELS, weights=W.tolist(), weights_are="importance")
    assert "'weights' as weights" in report.audit.took
    (note,) = (note for note in report.audit.notes if "weights" in note)
    assert note.startswith("Rows are weighted: 90 rows")  # and not that they were not used
    assert "as weights" not in sf.audit(frame(weight=W), weights=False).audit.took


@pytest.mark.parametrize(
    ("bad", "told", "says"),
    [
        (
            {5: -1.0, 7: -2.0},
            {},
            "to be 0 or from 1e-12 to 1e\\+12 in every row, but 2 of 90 rows have others: row 5 has -1, row 7 has -2",
        ),
        (
            {5: 0.5},
            {"weights_are": "counts"},
            "whole numbers from 0 to 1e\\+12, how many rows each stands for, in every row, but row",
        ),
        ({5: np.nan}, {}, r"1 of 90 rows has a gap, NaN or infinity \(row 5; in 'weight' 1×\)"),
        ({5: np.inf}, {}, "in 'weight' 1×"),
        (dict.fromkeys(range(N), 0.0), {}, "a weight above 0 in some row, but 'weight' is 0 in all of them"),
    ],
)
def test_what_no_weight_can_be(bad: dict[int, float], told: dict[str, Any], says: str) -> None:
    wrong = W.copy()
    wrong[list(bad)] = list(bad.values())
    with pytest.raises(InputError, match=says):
        audit(frame(weight=wrong), **told)


def test_texts_are_no_weights() -> None:
    with pytest.raises(InputError, match=r"Expected numbers in 'weight', but row 3 has 'heavy'"):
        audit(frame(weight=["1", "2", "3", "heavy", *map(str, W[4:])]))


def test_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a column 'ww', but"):
        open_predictions(frame(weight=W), weights="ww")
    with pytest.raises(InputError, match="Expected weights beside --weights-are, but DataFrame has none"):
        open_predictions(frame(), weights_are="counts")
    with pytest.raises(InputError, match="Expected --weights-are to be importance or counts, but got 'often'"):
        sf.audit(frame(weight=W), weights_are="often")
    with pytest.raises(InputError, match="Expected weights= as an array beside probs= or logits="):
        sf.audit(frame(), weights=W)
    with pytest.raises(InputError, match="Expected columns of one length, but got probs 90, labels 90, weights 3"):
        sf.audit(probs=PROBS, labels=LABELS, weights=[1, 2, 3])


def test_on_the_command_line(tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "a.csv", weight=W, count=W)
    done = run_command("audit", "a.csv", "--no-page")
    assert "'weight' as weights" in done.stdout
    assert "Say --weights count --weights-are counts if" in done.stdout
    done = run_command("audit", "a.csv", "--no-page", "--weights", "count", "--weights-are", "counts")
    assert "'count' as weights" in done.stdout
    done = run_command("audit", "a.csv", "--no-page", "--no-weights")
    assert "as weights" not in done.stdout
    done = run_command("audit", "a.csv", "--no-page", "--no-weights", "--weights", "count")
    assert "Expected --weights NAME or --no-weights, but got both" in done.stderr


def test_a_calibrator_says_what_it_took() -> None:
    assert "'weight' as weights" in calibrate(frame(weight=W), method="temperature").took
