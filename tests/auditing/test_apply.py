"""A saved calibrator on new predictions: without labels, in every format, other columns kept; what to type next."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from surefoot.auditing import compare_audits
from surefoot.auditing.told_apart import told_apart
from surefoot.calibrators import load
from surefoot.cli.next_step import held_out_beside
from tests.auditing.made import NAMES, made, softmax, write
from tests.conftest import RunCommand

FORMATS = ["npz", "csv", "tsv", "jsonl", "json", "parquet", "csv.gz"]


@pytest.fixture
def fitted(tmp_path: Path, run_command: RunCommand) -> Any:
    """A temperature fitted on a csv with columns prob_shirt, prob_coat and prob_bag."""
    write(tmp_path / "val.csv", *made(300, temperature=0.5))
    assert run_command("calibrate", "val.csv", "--method", "temperature").returncode == 0
    return load(tmp_path / "calibrator.json")


def unlabelled(path: Path, probs: np.ndarray) -> Path:
    """Write what production has: ids and probabilities."""
    ids = [f"x{i}" for i in range(len(probs))]
    named = {f"prob_{name}": probs[:, k].tolist() for k, name in enumerate(NAMES)}
    if path.suffix == ".npz":
        np.savez(path, probs=probs, id=np.array(ids))
    elif path.suffix == ".npy":
        np.save(path, probs)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow(["id", *named])
            out.writerows(zip(ids, *named.values(), strict=True))
    elif path.suffix == ".jsonl":
        rows = zip(ids, probs.tolist(), strict=True)
        path.write_text("".join(json.dumps({"id": i, "probs": p}) + "\n" for i, p in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps({"id": ids, "probs": probs.tolist(), "classes": NAMES}))
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"id": ids, **named}), path)
    return path


def read_back(path: Path) -> tuple[np.ndarray, list[str]]:
    """Probabilities and ids, by other means than the project's own."""
    if path.suffix == ".npz":
        with np.load(path) as found:
            return softmax(found["logits"]), [str(each) for each in found["id"]] if "id" in found else []
    if path.suffix == ".parquet":
        from pyarrow import parquet

        columns = parquet.read_table(path).to_pydict()
    elif path.suffix == ".json":
        columns = json.loads(path.read_text())
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    else:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        rows = list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
    scores = columns["probs"] if "probs" in columns else np.stack([columns[f"prob_{name}"] for name in NAMES], 1)
    return np.array(scores, float), columns.get("id", [])


@pytest.mark.parametrize("source", ["csv", "npz", "npy", "jsonl", "json", "parquet"])
def test_predictions_without_labels_are_repaired(
    source: str, fitted: Any, tmp_path: Path, run_command: RunCommand
) -> None:
    logits, _ = made(50, temperature=0.5, seed=1)
    unlabelled(tmp_path / f"new.{source}", softmax(logits))
    for ending in FORMATS if source in ("csv", "jsonl") else ["csv", "npz"]:
        done = run_command("calibrate", f"new.{source}", "--apply", "calibrator.json", "--out", f"r.{ending}")
        assert done.returncode == 0, done.stderr
        assert re.match(r"temperature brings the mean confidence from [\d.]+ % to [\d.]+ %; no labels", done.stdout)
        probs, ids = read_back(tmp_path / f"r.{ending}")
        np.testing.assert_allclose(probs, fitted.probs(logits), atol=1e-5)
        assert ids == ([] if source == "npy" else [f"x{i}" for i in range(50)]), ending


def test_the_format_that_was_read_is_written_where_none_is_asked_for(
    fitted: Any, tmp_path: Path, run_command: RunCommand
) -> None:
    unlabelled(tmp_path / "new.csv", softmax(made(20)[0]))
    done = run_command("calibrate", "new.csv", "--apply", "calibrator.json")
    assert "Written: new-repaired.csv" in done.stdout
    assert (tmp_path / "new-repaired.csv").read_text().splitlines()[0] == "id,prob_shirt,prob_coat,prob_bag"
    values = json.loads(run_command("calibrate", "new.csv", "--apply", "calibrator.json", "--json").stdout)
    assert (values["before"], values["after"], values["n"]) == (None, None, 20)


def test_labels_and_other_columns_stay_in_a_table(fitted: Any, tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(60, temperature=0.5, seed=2)
    write(tmp_path / "test.csv", logits, labels, sites=["n", "s"] * 30)
    done = run_command("calibrate", "test.csv", "--apply", "calibrator.json", "--out", "r.csv")
    assert "brings ECE from" in done.stdout
    with (tmp_path / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [NAMES[label] for label in labels]
    assert [row["site"] for row in rows] == ["n", "s"] * 30
    assert run_command("audit", "r.csv", "--no-page").returncode == 0


def test_a_single_row(fitted: Any, tmp_path: Path, run_command: RunCommand) -> None:
    logits, _ = made(1, seed=3)
    unlabelled(tmp_path / "new.csv", softmax(logits))
    done = run_command("calibrate", "new.csv", "--apply", "calibrator.json", "--out", "r.csv")
    assert done.returncode == 0, done.stderr
    assert "Read: new.csv, 1 row: " in done.stdout
    np.testing.assert_allclose(read_back(tmp_path / "r.csv")[0], fitted.probs(logits), atol=1e-5)


def test_what_cannot_be_told_or_is_no_probability_is_refused(
    fitted: Any, tmp_path: Path, run_command: RunCommand
) -> None:
    (tmp_path / "other.csv").write_text("id,a,b,c\n1,0.2,0.3,0.5\n")
    (tmp_path / "sum.csv").write_text("prob_shirt,prob_coat,prob_bag\n0.2,0.3,0.5\n0.2,0.3,0.6\n")
    (tmp_path / "text.csv").write_text("prob_shirt,prob_coat,prob_bag\n0.2,0.3,0.5\n0.2,?,0.5\n")
    np.savez(tmp_path / "two.npz", probs=np.full((3, 2), 0.5))
    (tmp_path / "more.csv").write_text("prob_shirt,prob_coat,prob_bag,prob_hat\n0.2,0.3,0.4,0.1\n")
    (tmp_path / "turned.csv").write_text("label,prob_coat,prob_shirt,prob_bag\ncoat,0.2,0.3,0.5\nbag,0.2,0.3,0.5\n")
    for name, says in {
        "other.csv": "Expected the scores that the calibrator was fitted on, such as prob_shirt, prob_coat, prob_bag",
        "sum.csv": "Expected probabilities that are not negative and sum to 1, but row 1 has 0.2, 0.3, 0.6",
        "text.csv": "row 1 has 0.2, nan, 0.5",
        "more.csv": "Expected 3 classes, which the calibrator was fitted on, but more.csv has prob_hat beside",
        "two.npz": "Expected a calibrator for 2 classes, but this one was fitted on 3",
        "turned.csv": "Expected the classes shirt, coat, bag in this order",
    }.items():
        done = run_command("calibrate", name, "--apply", "calibrator.json", "--out", "r.csv")
        assert done.returncode == 2, name
        assert says in done.stderr
        assert not (tmp_path / "r.csv").exists()


def test_what_comes_next_is_never_to_fit_on_what_was_audited(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(300, temperature=0.4)
    write(tmp_path / "model_test.csv", logits, labels)
    alone = run_command("audit", "model_test.csv").stdout
    assert "Next: surefoot calibrate HELD-OUT.csv, on rows of the same model that are not audited here" in alone
    assert "calibrate model_test.csv" not in alone + (tmp_path / "model_test-audit.html").read_text(encoding="utf-8")
    write(tmp_path / "val.csv", logits, labels)
    assert "Next: surefoot calibrate val.csv\n" in run_command("audit", "model_test.csv", "--no-page").stdout
    write(tmp_path / "model_dev.csv", logits, labels)
    assert "Next: surefoot calibrate model_dev.csv\n" in run_command("audit", "model_test.csv", "--no-page").stdout
    np.savez(tmp_path / "both.npz", val_logits=logits, val_labels=labels, test_logits=logits, test_labels=labels)
    assert "Next: surefoot calibrate both.npz\n" in run_command("audit", "both.npz", "--no-page").stdout
    assert held_out_beside(tmp_path / "val.csv") is None
    for name in ("predictions.npz", "validation.npz", "latest.npz"):
        (tmp_path / name).write_bytes(b"")
    assert held_out_beside(tmp_path / "predictions.npz") == tmp_path / "validation.npz"
    assert held_out_beside(tmp_path / "latest.npz") == tmp_path / "validation.npz"


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(300)
    for name, factor in (("sgd", 3), ("csam", 1)):
        (tmp_path / name / "predictions").mkdir(parents=True)
        write(tmp_path / name / "predictions" / "test.npz", factor * logits, labels)
    paths = [f"{name}/predictions/test.npz" for name in ("sgd", "csam")]
    done = run_command("audit", *paths)
    assert f"A: {paths[0]}: over-confident" in done.stdout
    assert f"B: {paths[1]}: calibrated" in done.stdout
    assert f"Read: {paths[1]}, 300 × 3" in done.stdout
    page = tmp_path / "sgd-predictions-test-csam-predictions-test-audit.html"
    assert f"A: {paths[0]}" in page.read_text(encoding="utf-8")
    both = compare_audits(*(tmp_path / path for path in paths))
    assert [each.to_json()["file"] for each in (both.a, both.b)] == paths
    assert told_apart([tmp_path / paths[0]] * 2) == ["test.npz", "test.npz"]
