"""Only scores are taken for scores: no features, running numbers, weights or predicted classes."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit
from surefoot.errors import InputError
from surefoot.sources import open_predictions
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand

N = 300
RNG = np.random.default_rng(0)
RISK = RNG.random(N).round(4)
TRUTH = (RNG.random(N) < RISK).astype(int)
AGE, BMI = RNG.integers(20, 90, N) + 0.5, RNG.normal(25, 4, N).round(2)
LOGITS, LABELS = made(N)
PROBS = softmax(LOGITS).round(6)
NAMES = np.array(["shirt", "coat", "bag"])
Table = Mapping[str, Sequence[object]]


def write(path: Path, columns: Table) -> Path:
    """Write a table in the format that the file's name asks for."""
    held = [np.asarray(values).tolist() for values in columns.values()]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*held, strict=True)]
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            out = csv.DictWriter(file, list(columns))
            out.writeheader()
            out.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({name: np.asarray(values) for name, values in columns.items()}), path)
    return path


def classes(names: Sequence[str], values: np.ndarray = PROBS) -> dict[str, np.ndarray]:
    return {name: values[:, k] for k, name in enumerate(names)}


TAKEN: dict[str, tuple[Table, str]] = {
    "prob beside features": ({"label": TRUTH, "prob": RISK, "age": AGE, "bmi": BMI}, "'prob' as probs"),
    "prob beside predicted classes": ({"label": TRUTH, "pred": (RISK > 0.5) * 1, "prob": RISK}, "'prob' as probs"),
    "score beside predicted classes": ({"label": TRUTH, "pred": (RISK > 0.5) * 1, "score": RISK}, "'score' as scores"),
    "running numbers": (
        {"Unnamed: 0": np.arange(N), "row_id": np.arange(N) + 0.5, "label": NAMES[LABELS], **classes(NAMES)},
        "'shirt…bag' as scores",
    ),
    "features beside named classes": (
        {"age": AGE, "label": NAMES[LABELS], **classes(NAMES)},
        "'shirt…bag' as scores",
    ),
    "logits of named classes": ({"label": NAMES[LABELS], **classes(NAMES, LOGITS)}, "'shirt…bag' as scores"),
    "numbered columns of pandas": (
        {"Unnamed: 0": np.arange(N), **classes("012", LOGITS), "label": LABELS},
        "'0…2' as scores",
    ),
    "score_0, score_1, score_2": ({"label": LABELS, **classes(["score_0", "score_1", "score_2"])}, "'score_0…score_2'"),
    "class_shirt, …": ({"label": NAMES[LABELS], **classes([f"class_{name}" for name in NAMES])}, "'class_shirt…class_"),
    "shares beside predicted names": ({"pred": NAMES[LABELS], "label": NAMES[LABELS], **classes(NAMES)}, "'shirt…bag'"),
    "predicted label beside the true one": (
        {"predicted_label": 1 - TRUTH, "label": TRUTH, "prob": RISK},
        "'prob' as probs, 'label' as labels",
    ),
}
REFUSED: dict[str, tuple[Table, str]] = {
    "features": ({"label": TRUTH, "age": AGE, "bmi": BMI}, "whether 'age', 'bmi' are scores or features of classes"),
    "features and names": ({"label": NAMES[LABELS], "age": AGE, "bmi": BMI}, "whether 'age', 'bmi' are scores or feat"),
    "predicted classes": ({"label": TRUTH, "pred": (RISK > 0.5) * 1}, "whole numbers, like predicted classes"),
    "predicted classes as floats": ({"label": TRUTH, "pred": (RISK > 0.5) * 1.0}, "like predicted classes"),
    "a score beside shares": (
        {"label": TRUTH, "score": RISK, "left": 1 - RISK, "right": RISK},
        "cannot tell whether 'score', 'left', 'right' are scores of classes",
    ),
    "two scores": ({"label": TRUTH, "score": RISK, "output": 1 - RISK}, "'score' and 'output' could both be it"),
    "two labels": ({"label": TRUTH, "target": 1 - TRUTH, "prob": RISK}, "'label' and 'target' could both be it"),
    "one-hot columns": (
        {**classes(["y_0", "y_1", "y_2"], np.eye(3)[LABELS]), **classes(["p_0", "p_1", "p_2"])},
        "one is, and scores sum to 1. Say --form multilabel, or give one column of labels",
    ),
    "the score of class 0": ({"label": TRUTH, "prob_0": 1 - RISK}, "but 'prob_0' is of class 0"),
    "logits of two classes": (
        {"label": TRUTH, "score_neg": LOGITS[:, 0], "score_pos": LOGITS[:, 1]},
        "whether 'score_neg', 'score_pos' are scores of classes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize("name", TAKEN)
def test_the_scores_are_found(name: str, suffix: str, tmp_path: Path, fast: bool) -> None:
    columns, says = TAKEN[name]
    (source,) = open_predictions(write(tmp_path / f"a.{suffix}", columns))
    assert says in source.took
    chunks = list(source.chunks())
    if "prob" in columns or "score" in columns:
        np.testing.assert_allclose(np.concatenate([chunk.scores[:, 1] for chunk in chunks]), RISK)
        assert np.concatenate([chunk.labels for chunk in chunks]).tolist() == TRUTH.tolist()
    else:
        assert np.concatenate([chunk.labels for chunk in chunks]).tolist() == LABELS.tolist()
        assert chunks[0].scores.shape[1] == 3


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_could_be_something_else_is_refused(
    name: str, suffix: str, tmp_path: Path, fast: bool, run_command: RunCommand
) -> None:
    columns, says = REFUSED[name]
    write(tmp_path / f"a.{suffix}", columns)
    done = run_command("audit", f"a.{suffix}")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_user_says_which_are_the_scores(tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "a.csv", REFUSED["a score beside shares"][0])
    write(tmp_path / "b.csv", {"label": TRUTH, "age": LOGITS[:, 0], "bmi": LOGITS[:, 1]})
    np.savez(tmp_path / "c.npz", mine=LOGITS, logits=-LOGITS, labels=LABELS)
    done = run_command("audit", "a.csv", "--scores", "score", "--json", "--no-page")
    (found,) = json.loads(done.stdout)["audits"]
    assert found["took"].startswith("'score' as scores, 'label' as labels (probs, by their values)")
    done = run_command("audit", "b.csv", "--scores", "age", "--scores", "bmi")
    assert "'age…bmi' as scores, 'label' as labels (logits, by their values)" in done.stdout
    (source,) = open_predictions(tmp_path / "c.npz", scores=["mine"])
    assert "'mine' as scores, 'labels' as labels" in source.took
    (both,) = open_predictions(tmp_path / "a.csv", scores=["left", "right"])
    assert both.class_names == ("left", "right")
    for name, words, says in (
        ("a.csv", ["--scores", "mine"], "Expected a column 'mine', but a.csv has label, score"),
        ("c.npz", ["--scores", "mine", "--scores", "logits"], "Expected one array of scores in c.npz, but got 2"),
    ):
        done = run_command("audit", name, *words)
        assert done.returncode == 2
        assert says in done.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"probs": [[0.5, 0.5]], "labels": [0]} and more', "'and more' stands behind its end"),
        ('[{"label": 0, "p": [0.5, 0.5]}] ]', "']' stands behind its end"),
        ('{"label": 0, "p": [0.5, 0.5]}\n{"label": 1, "p": [0.5, 0.5]}\n', "one object per line the ending .jsonl"),
        ('{"probs": [[0.5, 0.5]], "labels": [0], "probs": [[1, 0]]}', "'probs' comes twice in one object"),
        ('[{"label": 0, "p": [0.5, 0.5], "label": 1}]', "'label' comes twice in one object"),
        ('{"probs": [[0.5, 0.5]], "labels": [0],}', "cannot be read"),
        ('{"probs": [[0.5, 0.5]], "labels": [0]', "cannot be read"),
        ('{3: [[0.5, 0.5]], "labels": [0]}', "a key in double quotes should stand instead of '3'"),
        ('{"probs": [[NaN, 0.5]], "labels": [0]}', "1 of 1 rows has a gap, NaN or infinity (row 0; in 'probs[0]' 1×)"),
        ('{"probs": [[null, 0.5]], "labels": [0]}', "1 of 1 rows has a gap, NaN or infinity (row 0; in 'probs[0]' 1×)"),
    ],
)
def test_json_that_is_none_or_holds_more(text: str, says: str, tmp_path: Path, run_command: RunCommand) -> None:
    (tmp_path / "a.json").write_text(text)
    done = run_command("audit", "a.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_blanks_behind_the_end_of_json_are_nothing(tmp_path: Path) -> None:
    for name, text in {"a": '{"probs": [[0.5, 0.5]], "labels": [0]}', "b": '[{"label": 0, "p": [0.5, 0.5]}]'}.items():
        (tmp_path / f"{name}.json").write_text(text + " \n\n")
        assert open_predictions(tmp_path / f"{name}.json")[0].first() is not None


def test_a_parquet_column_twice(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    twice = pyarrow.table([[0, 1], [0.2, 0.7], [0.8, 0.3]], names=["label", "p0", "p0"])
    parquet.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"every column once, but a\.parquet has 'p0' twice"):
        open_predictions(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["class_weight", "wt", "survey.weight", "freq"])
def test_weights_by_other_names(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=LOGITS, labels=LABELS, **{name: RISK})
    assert open_predictions(tmp_path / "a.npz")[0].notes[0].startswith(f"Array {name!r} was not used: every row counts")


@pytest.mark.parametrize(("file", "what"), [("a.csv", "Column"), ("a.npz", "Array")])
def test_weights_that_are_not_used_are_said(file: str, what: str, tmp_path: Path, run_command: RunCommand) -> None:
    if file == "a.csv":
        write(tmp_path / file, {"label": TRUTH, "prob": RISK, "survey_weight": RISK})
    else:
        np.savez(tmp_path / file, logits=LOGITS, labels=LABELS, survey_weight=RISK)
    says = (
        f"{what} 'survey_weight' was not used: every row counts once. Say --weights survey_weight if it says how much "
        "a row counts, or --no-weights."
    )
    done = run_command("audit", file)
    assert f"Note: {says}" in done.stdout.splitlines()
    assert says in (tmp_path / "a-audit.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert says in json.loads(run_command("audit", file, "--json", "--no-page").stdout)["audits"][0]["notes"]
    fitted = run_command("calibrate", file, "--method", "temperature")
    assert f"Note: {says}" in fitted.stdout.splitlines()
    again = run_command("calibrate", file, "--method", "temperature", "--json")
    assert says in json.loads(again.stdout)["notes"]


def test_a_weight_that_is_a_group_is_used(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", {"label": TRUTH, "prob": RISK, "weight": np.arange(N) % 2})
    (found,) = audit(tmp_path / "a.csv", groups=["weight"])
    assert not [note for note in found.notes if "weight" in note]
    assert len(found.slices) == 2
