"""Rows with a gap are refused; with --skip-missing they are left out, counted by column and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot.auditing import audit, calibrate
from surefoot.errors import InputError
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand
from tests.sources.rows import labels, one, scores, weights

N = 200
LOGITS, LABELS = made(N, temperature=0.5)
PROBS = softmax(LOGITS)
GONE = {"prob_0": (3, 4, 60), "label": (4, 100), "weight": (150,)}
LEFT = np.setdiff1d(np.arange(N), [row for rows in GONE.values() for row in rows])
SAYS = (
    "5 of 200 rows were left out for a gap, NaN or infinity (in 'prob_0' 3×, 'label' 2×, 'weight' 1×); rows are "
    "numbered without them."
)


def table() -> pd.DataFrame:
    found = pd.DataFrame({"label": LABELS.astype(float), **{f"prob_{k}": PROBS[:, k] for k in range(3)}})
    found["weight"] = 1.0 + np.arange(N) % 3
    found["site"] = np.where(np.arange(N) % 2, "a", "b")
    for name, rows in GONE.items():
        found.loc[list(rows), name] = np.nan
    return found


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "jsonl"])
def test_rows_with_a_gap_are_left_out_and_said(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 100)
    source: pd.DataFrame | Path = table()
    if kind != "frame":
        source = tmp_path / f"a.{kind}"
        if kind == "csv":
            table().to_csv(source, index=False)
        elif kind == "parquet":
            table().to_parquet(source)
        else:
            table().to_json(source, orient="records", lines=True)
    with pytest.raises(InputError, match=r"5 of 200 rows have a gap.* Leave these rows out with --skip-missing"):
        audit(source)
    found = one(source, skip_missing=True, groups=["site"])
    np.testing.assert_allclose(scores(found), PROBS[LEFT], atol=1e-9)
    np.testing.assert_array_equal(labels(found), LABELS[LEFT])
    np.testing.assert_array_equal(weights(found), 1.0 + LEFT % 3)
    assert np.concatenate([chunk.groups["site"] for chunk in found.chunks()]).tolist() == ["ba"[i % 2] for i in LEFT]
    assert found.notes[0] == SAYS


def test_the_audit_is_that_of_the_other_rows() -> None:
    whole = table()
    found = sf.audit(whole, skip_missing=True).audit
    wanted = sf.audit(whole.iloc[LEFT]).audit
    assert (found.n, found.notes[0]) == (195, SAYS)
    assert found.verdict == wanted.verdict
    assert found.measures["nll"] == wanted.measures["nll"]
    assert calibrate(whole, skip_missing=True, method="temperature").notes[0] == SAYS


def test_arrays_with_the_first_rows_all_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 30)
    logits = LOGITS.copy()
    logits[:25] = np.nan
    np.savez(tmp_path / "a.npz", logits=logits, labels=LABELS)
    found = one(tmp_path / "a.npz", skip_missing=True)
    np.testing.assert_array_equal(labels(found), LABELS[25:])
    assert found.notes == (
        "25 of 200 rows were left out for a gap, NaN or infinity (in 'logits[0]' 25×, 'logits[1]' 25×, 'logits[2]' "
        "25×); rows are numbered without them.",
    )


def test_nothing_missing_and_nothing_left() -> None:
    assert one({"probs": PROBS, "labels": LABELS}, skip_missing=True).notes == ()
    with pytest.raises(
        InputError, match=r"Expected some rows without a gap, but arrays has none: 2 of 2 rows were left"
    ):
        one({"probs": [[np.nan, 0.5], [0.5, np.nan]], "labels": [0, 1]}, skip_missing=True)


def test_on_the_command_line(tmp_path: Path, run_command: RunCommand) -> None:
    table().to_csv(tmp_path / "a.csv", index=False)
    done = run_command("audit", "a.csv", "--skip-missing")
    assert f"Note: {SAYS}" in done.stdout.splitlines()
    assert "Read: a.csv, 195 × 3" in done.stdout
    assert "--skip-missing" in done.stdout.partition("Next:")[2]
