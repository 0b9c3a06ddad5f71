"""Every bad file gets one clear line and exit code 2, or the right answer where one exists."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.auditing.made import made, softmax
from tests.conftest import RunCommand

LOGITS, LABELS = made(60)
PROBS = softmax(LOGITS)


def npz(**arrays: object) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def text(content: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(content) and None


def truncated(path: Path) -> None:
    np.savez(path, logits=LOGITS, labels=LABELS)
    path.write_bytes(path.read_bytes()[:-300])


def damaged(path: Path) -> None:
    np.savez_compressed(path, logits=LOGITS, labels=LABELS)
    content = bytearray(path.read_bytes())
    content[300:340] = bytes(40)
    path.write_bytes(bytes(content))


def npz_bytes(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, logits=LOGITS, labels=LABELS)


def changed(values: np.ndarray, row: int, value: object) -> np.ndarray:
    values = values.copy()
    values[row] = value
    return values


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "sums.npz": (npz(probs=changed(PROBS, 7, 0.5), labels=LABELS), "row 7 sums to 1.5"),
    "negative.npz": (npz(probs=changed(PROBS, 3, [1.5, -0.5, 0]), labels=LABELS), "row 3 sums to 1 and holds -0.5"),
    "nan.npz": (
        npz(logits=changed(LOGITS, 5, np.nan), labels=LABELS),
        "1 of 60 rows has a gap, NaN or infinity (row 5; in 'logits[0]' 1×",
    ),
    "infinite.npz": (npz(logits=changed(LOGITS, 5, np.inf), labels=LABELS), "NaN or infinity (row 5; in"),
    "outside.npz": (npz(logits=LOGITS, labels=changed(LABELS, 9, 3)), "labels in 0…2, but row 9 has 3"),
    "minus.npz": (npz(logits=LOGITS, labels=changed(LABELS, 9, -1)), "labels in 0…2, but row 9 has -1"),
    "half.npz": (npz(logits=LOGITS, labels=changed(LABELS * 1.0, 2, 0.5)), "row 2 has 0.5"),
    "no-label.npz": (
        npz(logits=LOGITS, labels=changed(LABELS * 1.0, 2, np.nan)),
        "1 of 60 rows has a gap, NaN or infinity (row 2; in 'labels' 1×)",
    ),
    "lengths.npz": (npz(logits=LOGITS, labels=LABELS[:50]), "got logits (60, 3), labels (50,)"),
    "one-column.npz": (npz(probs=PROBS[:, :1], labels=LABELS), "at least two classes, but the scores are (60, 1)"),
    "cube.npz": (npz(probs=PROBS[None], labels=LABELS), "but got scores (1, 60, 3) and labels (60,) in cube.npz"),
    "empty.npz": (npz(logits=LOGITS[:0], labels=LABELS[:0]), "at least one row, but empty.npz has none"),
    "nothing.npz": (npz(weights=LOGITS), "holds weights. Rename them"),
    "truncated.npz": (truncated, "truncated.npz is cut off, damaged or none"),
    "damaged.npz": (damaged, "damaged.npz:logits is"),
    "pickled.npz": (npz(logits=LOGITS, labels=LABELS.astype(object)), "labels holds pickled objects, which could run"),
    "words.npz": (
        npz(logits=LOGITS, labels=np.array(["cat"] * 60)),
        "in 0…2, but 60 of 60 rows have others: row 0 has 'cat'",
    ),
    "names.npz": (npz(logits=LOGITS, labels=LABELS, classes=np.array(["a", "b"])), "Expected 3 class names"),
    "archive.feather": (npz_bytes, "Expected a whole .feather file, but archive.feather is none"),
    "deep-and-long.json": (
        text(json.dumps({"probs": [[10**400, [1]], [0, 1]], "labels": [0, 1]})),
        "Expected numbers in 'probs', but row 0 has",
    ),
    "cut.csv": (text("label,p0,p1\n0,0.5,0.5\n1,0.5\n"), "Expected 3 values per row"),
    "word.csv": (text("label,p0,p1\n0,0.5,0.5\n1,high,0.5\n"), "numbers in 'p0', but row 1 has 'high'"),
    "gap.csv": (text("label,p0,p1\n0,0.5,0.5\n1,,0.5\n"), "1 of 2 rows has a gap, NaN or infinity (row 1; in 'p0' 1×)"),
    "twice.csv": (text("label,p0,p0\n0,0.5,0.5\n"), "has 'p0' twice"),
    "header.csv": (text("label,p0,p1\n"), "header.csv has none"),
    "blank.csv": (text(""), "blank.csv has none"),
    "unlabelled.csv": (text("p0,p1\n0.5,0.5\n"), "Expected a label column"),
    "unknown.csv": (text("label,prob_cat,prob_dog\nbird,0.5,0.5\n"), "among cat, dog, but row 0 has 'bird'"),
    "latin.csv": (lambda path: path.write_bytes(b"label,p0,p1\n\xff,0.5,0.5\n"), "latin.csv cannot be read"),
    "half.json": (text('{"probs": [[0.5, 0.5], [0.5'), "half.json cannot be read"),
    "number.json": (text("3"), "neither a list of rows nor an object"),
    "ragged.json": (text('{"probs": [[0.5, 0.5], [1]], "labels": [0, 1]}'), "as many scores in every row"),
    "lengths.json": (text('{"probs": [[0.5, 0.5]], "labels": [0, 1]}'), "got probs 1, labels 2"),
    "broken.jsonl": (text('{"label": 0, "p": [1, 0]}\n{"label"\n'), "in line 2 of broken.jsonl"),
    "keys.jsonl": (
        text('{"label": 0, "p": [1, 0]}\n{"label": 0}\n'),
        "1 of 2 rows has a gap, NaN or infinity (row 1; in 'p[0]' 1×",
    ),
    "list.jsonl": (text('{"label": 0, "p": [1, 0]}\n[1]\n'), "row 1 is none"),
    "short.jsonl": (text('{"label": 0, "p": [1, 0]}\n{"label": 0, "p": [1]}\n'), "as many scores in every row"),
    "text.parquet": (text("no parquet"), "text.parquet cannot be read"),
    "model.pt": (text("weights"), "model.pt is a pickle, which can run any code when it is loaded."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_clear_line_and_exit_code_2(name: str, tmp_path: Path, run_command: RunCommand) -> None:
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    make, says = REFUSED[name]
    make(tmp_path / name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an open file that is forgotten would warn
        done = run_command("audit", name)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert says in line
    assert [path.name for path in tmp_path.iterdir()] == [name]


def sure(n: int, right: bool, confidence: float, classes: int = 3) -> dict[str, np.ndarray]:
    rest = (1 - confidence) / (classes - 1)
    probs = np.tile([confidence, *[rest] * (classes - 1)], (n, 1))
    return {"probs": probs, "labels": np.zeros(n, int) if right else np.ones(n, int)}


ANSWERED: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "all-right.npz": (sure(500, True, 0.9), "under-confident by 10.0 points, 95 % interval 9.3–10.0; every true class"),
    "all-wrong.npz": (sure(500, False, 0.9), "over-confident by 90.0 points, 95 % interval 89.3–90.0; the scores say"),
    "certain-right.npz": (sure(500, True, 1.0), "calibrated as far as 500 examples can tell: ECE 0.0 %"),
    "certain-wrong.npz": (sure(500, False, 1.0), "over-confident by 100.0 points"),
    "two-right.npz": (
        sure(500, True, 0.9, 2),
        "risk is overstated by 10.0 points: mean P(class 1) 10.0 % where 0.0 % happen, 95 % interval 0.0–0.74",
    ),
    "two-wrong.npz": (
        sure(500, False, 0.9, 2),
        "risk is understated tenfold: mean P(class 1) 10.0 % where 100.0 % happen, 95 % interval 99.3–100.0",
    ),
    "two-certain-right.npz": (
        sure(500, True, 1.0, 2),
        "risk is calibrated as far as 500 examples with 0 events can tell",
    ),
    "two-certain-wrong.npz": (sure(500, False, 1.0, 2), "risk is understated by 100.0 points: mean P(class 1) 0.0 %"),
    "one.npz": (sure(1, True, 0.9, 2), "1 example is too few to judge calibration; accuracy 100.0 % (2.5–100.0)"),
    "seven.npz": (sure(7, True, 0.9, 2), "7 examples are too few to judge calibration"),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_the_right_answer_where_there_is_one(name: str, tmp_path: Path, run_command: RunCommand) -> None:
    arrays, says = ANSWERED[name]
    np.savez(tmp_path / name, **arrays)
    done = run_command("audit", name)
    assert done.returncode == 0, done.stderr
    assert says in " ".join(done.stdout.split())
    assert "All labels are of one class" in done.stdout
    assert done.stderr == ""
    page = (tmp_path / name.replace(".npz", "-audit.html")).read_text(encoding="utf-8")
    assert says.split(";")[0][1:] in page
    again = run_command("audit", name, "--json", "--no-page")
    json.loads(again.stdout, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


def test_what_arrow_cannot_read_is_told_in_one_line(tmp_path: Path, run_command: RunCommand) -> None:
    """Of a damaged schema it says that it lacks something, rather than that the file is wrong."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"label": pa.array([0, 1], pa.int8()), "p0": [0.4, 0.6], "p1": [0.6, 0.4]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    whole = (tmp_path / "a.arrow").read_bytes()
    said = set()
    for at in (at for at in range(len(whole)) if whole[at] == 8):  # bits of a whole number, somewhere
        (tmp_path / "a.arrow").write_bytes(whole[:at] + b"\4" + whole[at + 1 :])
        done = run_command("audit", "a.arrow", "--no-page", "--json")
        assert done.returncode == 0 or re.fullmatch("Error: Expected .*\n", done.stderr), done.stderr
        said |= {done.stderr}
    assert any("Integers with less than 8 bits not implemented" in each for each in said)


def test_a_true_class_of_probability_0_is_counted_and_shown_as_infinite(
    tmp_path: Path, run_command: RunCommand
) -> None:
    probs = changed(PROBS, 0, np.eye(3)[(LABELS[0] + 1) % 3])
    np.savez(tmp_path / "zero.npz", probs=probs, labels=LABELS)
    done = run_command("audit", "zero.npz")
    assert "1 row gives the true class a probability of 0, so the NLL is infinite." in done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("NLL")] == ["∞"]


@pytest.mark.parametrize("size", [1e160, 1e306])
@pytest.mark.parametrize("weighted", [False, True])
def test_logits_too_large_to_be_squared_have_no_interval(
    tmp_path: Path, run_command: RunCommand, size: float, weighted: bool
) -> None:
    logits = changed(LOGITS.astype(float), 0, size * np.eye(3)[(LABELS[0] + 1) % 3])
    np.savez(tmp_path / "huge.npz", logits=logits, labels=LABELS, **({"weights": LABELS + 1} if weighted else {}))
    done = run_command("audit", "huge.npz", "--json", "--no-page")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["audits"]
    nll = found["measures"]["nll"]
    assert nll["estimate"] > size / 1000
    assert nll["low"] is None
    assert nll["note"] == "some values are too large to be squared"
    assert run_command("audit", "huge.npz").returncode == 0


def test_one_class_only_among_the_labels(tmp_path: Path, run_command: RunCommand) -> None:
    np.savez(tmp_path / "one.npz", logits=LOGITS, labels=np.zeros(60, int))
    done = run_command("audit", "one.npz")
    assert done.returncode == 0, done.stderr
    assert "All labels are of one class; nothing can be said about the others." in done.stdout


def test_a_csv_with_a_quoted_header(tmp_path: Path, run_command: RunCommand) -> None:
    lines = ['"true label","prob_a, b","prob_c"', *(['"a, b",0.75,0.25'] * 3 + ["c,0.75,0.25"]) * 10]
    (tmp_path / "quoted.csv").write_text("\n".join(lines))
    done = run_command("audit", "quoted.csv", "--json", "--no-page")
    (audit,) = json.loads(done.stdout)["audits"]
    assert audit["class_names"] == ["a, b", "c"]
    assert audit["verdict"]["accuracy"]["estimate"] == 0.75
    assert audit["verdict"]["ece"]["estimate"] == pytest.approx(0)
