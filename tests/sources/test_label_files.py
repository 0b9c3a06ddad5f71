"""Scores without labels or names beside a file of labels: csv without a header, and every other kind of file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from surefoot.auditing import apply, audit, calibrate
from surefoot.errors import InputError
from surefoot.sources import _beside, open_predictions
from surefoot.sources._header import header_of
from tests.auditing.made import NAMES, made, softmax
from tests.conftest import RunCommand
from tests.sources.rows import labels, one, scores

N = 120
LOGITS, LABELS = made(N, temperature=0.5)
PROBS = softmax(LOGITS)


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scores and labels come in portions of different sizes."""
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 70)


def bare(path: Path, rows: np.ndarray, form: str | list[str] = "%.9f", **more: Any) -> Path:
    np.savetxt(path, rows, form, ",", **more)
    return path


def label_file(folder: Path, kind: str) -> Path:
    path = folder / f"truth.{kind.split(' ')[0]}"
    if kind == "csv":
        bare(path, LABELS, "%d", header="label", comments="")
    elif kind == "csv bare":
        bare(path, LABELS, "%d")
    elif kind == "csv of several columns":
        pd.DataFrame({"id": np.arange(N), "y_true": LABELS}).to_csv(path, index=False)
    elif kind == "csv of names":
        pd.Series([NAMES[label] for label in LABELS], name="label").to_csv(path, index=False)
    elif kind == "txt bare":
        bare(path, LABELS, "%d")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"label": int(label)}) + "\n" for label in LABELS))
    elif kind == "parquet":
        pd.DataFrame({"target": LABELS}).to_parquet(path)
    elif kind == "npy":
        np.save(path, LABELS)
    elif kind == "npz":
        np.savez(path, labels=LABELS, ids=np.arange(N))
    return path


KINDS = ["csv", "csv bare", "csv of several columns", "txt bare", "jsonl", "parquet", "npy", "npz"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_csv_without_a_header_and_labels_in_every_kind_of_file(kind: str, tmp_path: Path, fast: bool) -> None:
    path = bare(tmp_path / "scores.csv", PROBS)
    found = one(path, labels=str(label_file(tmp_path, kind)))
    np.testing.assert_allclose(scores(found), PROBS, atol=1e-8)
    np.testing.assert_array_equal(labels(found), LABELS)
    assert found.class_names == ()
    assert "as labels" in found.took


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "jsonl", "parquet", "npz", "npy"])
@pytest.mark.parametrize("kind", ["csv bare", "npy"])
def test_any_table_or_array_without_labels(suffix: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"p.{suffix}"
    table = pd.DataFrame({f"prob_{k}": PROBS[:, k] for k in range(3)})
    if suffix == "npz":
        np.savez(path, probs=PROBS)
    elif suffix == "npy":
        np.save(path, PROBS)
    elif suffix == "parquet":
        table.to_parquet(path)
    elif suffix == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    found = one(path, labels=str(label_file(tmp_path, kind)))
    np.testing.assert_allclose(scores(found), PROBS, atol=1e-9)
    np.testing.assert_array_equal(labels(found), LABELS)


def test_names_as_labels_and_several_parts(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for i in range(2):
        rows = slice(60 * i, 60 * i + 60)
        pd.DataFrame(PROBS[rows], columns=list(NAMES)).to_csv(tmp_path / "parts" / f"{i}.csv", index=False)
    found = one(tmp_path / "parts", labels=str(label_file(tmp_path, "csv of names")))
    np.testing.assert_array_equal(labels(found), LABELS)
    assert found.class_names == NAMES


def test_one_column_is_the_probability_of_class_1(tmp_path: Path) -> None:
    path = bare(tmp_path / "risk.csv", PROBS[:, 1])
    bare(tmp_path / "y.csv", LABELS == 1, "%d")
    found = one(path, labels=str(tmp_path / "y.csv"))
    np.testing.assert_allclose(scores(found)[:, 1], PROBS[:, 1], atol=1e-8)
    (result,) = audit(path, labels=str(tmp_path / "y.csv"))
    assert result.two_classes is not None


def test_texts_as_numpy_writes_them(tmp_path: Path, fast: bool) -> None:
    np.savetxt(tmp_path / "p.txt", PROBS)  # spaces between
    np.savetxt(tmp_path / "y.txt", LABELS)  # as 1.000e+00
    found = one(tmp_path / "p.txt", labels=str(tmp_path / "y.txt"))
    np.testing.assert_array_equal(scores(found), PROBS)
    np.testing.assert_array_equal(labels(found), LABELS)


def test_a_column_by_its_number(tmp_path: Path) -> None:
    path = bare(tmp_path / "a.csv", np.column_stack([LABELS, PROBS]), ["%d", *["%.9f"] * 3])
    found = one(path, labels="0")
    np.testing.assert_array_equal(labels(found), LABELS)
    np.testing.assert_allclose(scores(found), PROBS, atol=1e-8)
    with pytest.raises(
        InputError, match=r"a\.csv has 4 columns without names\. Say --labels labels\.csv .* --labels 3"
    ):
        open_predictions(path)


@pytest.mark.parametrize(
    ("first", "rest", "found"),
    [
        (["label", "0", "1"], [], ["label", "0", "1"]),
        (["0.1", "0.9"], [["0.2", "0.8"]], None),
        (["-1.5", "2"], [], None),
        (["0", "1", "2"], [["0", "1", "0"]], ["0", "1", "2"]),
        (["1", "2"], [["0.5", "0.5"]], ["1", "2"]),
        (["0", "1"], [["0.5", "0.5"]], ["0", "1"]),
        (["0.0", "1.0"], [["0.5", "0.5"]], None),
        (["", "0", "1"], [["0", "0.5", "0.5"]], ["", "0", "1"]),
        (["0.1", "", "0.9"], [], None),
        (["1"], [["0"], ["1"]], None),
        (["0"], [["0.5"]], ["0"]),
        (["1"], [], None),
        (["nan", "nan"], [], ["nan", "nan"]),
    ],
)
def test_names_or_numbers(first: list[str], rest: list[list[str]], found: list[str] | None) -> None:
    assert header_of(first, rest, None, "a.csv") == found
    assert header_of(first, rest, True, "a.csv") == first
    assert header_of(first, rest, False, "a.csv") is None


def test_a_first_line_that_could_be_both_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1\n0.25,0.75\n1,0\n0.5,0.5\n")
    says = r"0,1 could be the names of columns or a row in a\.csv\. Say --header or --no-header"
    (tmp_path / "y3.csv").write_text("y\n1\n0\n1\n")
    (tmp_path / "y4.csv").write_text("y\n1\n1\n0\n1\n")
    with pytest.raises(InputError, match=says):
        open_predictions(tmp_path / "a.csv", labels=str(tmp_path / "y3.csv"))
    assert len(scores(one(tmp_path / "a.csv", labels=str(tmp_path / "y3.csv"), header=True))) == 3
    assert len(scores(one(tmp_path / "a.csv", labels=str(tmp_path / "y4.csv"), header=False))) == 4


def test_a_row_of_names_and_numbers_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("cat,0.25,0.75\ndog,0.5,0.5\n")
    with pytest.raises(InputError, match="or, if the first line is a row, --no-header"):
        open_predictions(tmp_path / "a.csv")
    np.savez(tmp_path / "b.npz", probs=PROBS, labels=LABELS)
    with pytest.raises(InputError, match=r"Expected --header or --no-header with a \.csv, but got b\.npz"):
        open_predictions(tmp_path / "b.npz", header=True)


@pytest.mark.parametrize(("n", "more"), [(N - 1, ""), (N + 1, ", or take its first line away if that is a header")])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_of_different_lengths(n: int, more: str, suffix: str, tmp_path: Path) -> None:
    path = bare(tmp_path / "s.csv", PROBS)
    if suffix == "parquet":
        path = tmp_path / "s.parquet"
        pd.DataFrame(PROBS, columns=["p0", "p1", "p2"]).to_parquet(path)
    bare(tmp_path / "y.csv", np.resize(LABELS, n), "%d")
    with pytest.raises(InputError) as error:
        audit(path, labels=str(tmp_path / "y.csv"))
    assert str(error.value) == (
        f"Expected a label for every row, but {path.name} has 120 rows and y.csv has {n} labels. Give both for the "
        f"same rows, in the same order{more}."
    )


def test_arrays_of_different_lengths(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", probs=PROBS)
    bare(tmp_path / "y.csv", LABELS[:-1], "%d")
    with pytest.raises(InputError, match=r"probs \(120, 3\)|y\.csv \(119,\)"):
        audit(tmp_path / "s.npz", labels=str(tmp_path / "y.csv"))


def test_labels_that_cannot_be_found(tmp_path: Path) -> None:
    path = bare(tmp_path / "s.csv", PROBS)
    with pytest.raises(InputError, match=r"Expected labels in .*gone\.csv, but it does not exist"):
        open_predictions(path, labels=str(tmp_path / "gone.csv"))
    pd.DataFrame({"a": LABELS, "b": LABELS}).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(InputError, match=r"Expected labels alone, or called so, in two\.csv, but it has a, b"):
        open_predictions(path, labels=str(tmp_path / "two.csv"))
    with pytest.raises(InputError, match="Expected a column 'truth', but"):
        open_predictions(path, labels="truth")


def test_labels_are_taken_in_any_portions() -> None:
    def start() -> Any:
        yield np.array([0, 1, 2])
        yield np.array(["3", "x"])

    held = _beside.LabelRows(start)
    assert [held.take(2).tolist(), held.take(2).tolist(), held.rest()] == [[0, 1], ["2", "3"], 1]


def test_a_csv_without_a_header_is_fitted_and_repaired(tmp_path: Path, run_command: RunCommand) -> None:
    bare(tmp_path / "s.csv", PROBS)
    bare(tmp_path / "y.csv", LABELS, "%d")
    fitted = calibrate(tmp_path / "s.csv", labels=str(tmp_path / "y.csv"), method="temperature")
    fitted.save(tmp_path / "c.json")
    new = softmax(made(20, temperature=0.5, seed=1)[0])
    bare(tmp_path / "new.csv", new)
    apply(tmp_path / "c.json", tmp_path / "new.csv", tmp_path / "out.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv"), fitted.calibrator.probs(np.log(new)), atol=1e-6)
    done = run_command("audit", "s.csv", "--labels", "y.csv")
    assert "'y.csv' as labels" in done.stdout
    assert "--labels" not in done.stdout.partition("Next:")[2]  # those of other rows are in another file
    before = (tmp_path / "y.csv").read_bytes()
    assert run_command("audit", "s.csv", "--labels", "y.csv", "--out", "y.csv").returncode == 2
    assert (tmp_path / "y.csv").read_bytes() == before
