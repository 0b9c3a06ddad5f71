"""A label means one thing in the whole column, the output says which, and what could mean two things is asked about."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit
from surefoot.errors import InputError
from surefoot.records import RunFolder
from surefoot.schema import Predictions
from surefoot.sources import open_predictions
from surefoot.sources.labels import possible
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand


def table(path: Path, header: str, labels: list[str], places: list[int], k: int = 3) -> Path:
    """Write rows whose most likely class is at the place given."""
    rows = [[0.1 / (k - 1)] * k for _ in places]
    for row, place in zip(rows, places, strict=True):
        row[place] = 0.9
    lines = [",".join([label, *map(str, row)]) for label, row in zip(labels, rows, strict=True)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def read(path: Path, **options: object) -> tuple[list[int], str]:
    (source,) = open_predictions(path, **options)
    return np.concatenate([chunk.labels for chunk in source.chunks()]).tolist(), source.took


def test_numbers_from_0_where_classes_are_called_1_to_3(tmp_path: Path, fast: bool) -> None:
    path = table(tmp_path / "a.csv", "label,p1,p2,p3", ["0", "1", "2"] * 100, [0, 1, 2] * 100)
    labels, took = read(path)
    assert labels == [0, 1, 2] * 100
    assert took.endswith("labels read as class numbers 0…2")
    assert audit(path)[0].verdict.accuracy.estimate == 1


def test_names_where_classes_are_called_1_to_3(tmp_path: Path, fast: bool) -> None:
    path = table(tmp_path / "a.csv", "label,p1,p2,p3", ["1", "2", "3"] * 100, [0, 1, 2] * 100)
    labels, took = read(path)
    assert labels == [0, 1, 2] * 100
    assert took.endswith("labels read as class names")


@pytest.mark.parametrize("last", ["0", "3"])
def test_the_last_row_decides_for_the_whole_column(
    tmp_path: Path, fast: bool, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", 30)
    labels = ["1", "2"] * 100 + [last]
    path = table(tmp_path / "a.csv", "label,p1,p2,p3", labels, [0] * 201)
    wanted = [1, 2, 0] if last == "0" else [0, 1, 2]
    found, took = read(path)
    assert (found[:2], found[-1]) == (wanted[:2], wanted[2])
    assert ("class names" in took) == (last == "3")


def test_what_could_be_two_things_is_asked_about(tmp_path: Path, fast: bool, run_command: RunCommand) -> None:
    path = table(tmp_path / "a.csv", "label,p1,p2,p3", ["1", "2"] * 100, [0, 1] * 100)
    done = run_command("audit", "a.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "1, 2 could be names of classes (1, 2, 3, …) or class numbers from 0 in a.csv" in done.stderr
    assert "Say --labels-are names, or --labels-are from-0." in done.stderr
    assert read(path, labels_are="names")[0][:2] == [0, 1]
    assert read(path, labels_are="from-0")[0][:2] == [1, 2]
    assert read(path, labels_are="from-1")[0][:2] == [0, 1]
    said = run_command("audit", "a.csv", "--labels-are", "names")
    assert [line.split()[1] for line in said.stdout.splitlines() if line.startswith("accuracy")] == ["100.0"]
    assert "labels read as class names, as you said." in said.stdout
    assert "Next: surefoot calibrate HELD-OUT.csv --labels-are names" in said.stdout


def test_the_same_in_npz_json_jsonl_and_parquet(tmp_path: Path) -> None:
    """Integers in arrays follow the same rule as texts in a csv."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from pyarrow import parquet

    probs = np.where(np.eye(3)[np.arange(300) % 3] == 1, 0.9, 0.05)
    for labels, says in ((np.arange(300) % 3, "numbers 0…2"), (np.arange(300) % 3 + 1, "names"), (None, "two things")):
        truth = np.arange(300) % 2 + 1 if labels is None else labels
        names = ["1", "2", "3"]
        np.savez(tmp_path / "a.npz", probs=probs, labels=truth, class_names=np.array(names))
        (tmp_path / "a.json").write_text(
            json.dumps({"probs": probs.tolist(), "labels": truth.tolist(), "classes": names})
        )
        rows = [{"label": int(y), "probs": p, "classes": names} for y, p in zip(truth, probs.tolist(), strict=True)]
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        columns = {f"prob_{name}": probs[:, k] for k, name in enumerate(names)}
        parquet.write_table(pyarrow.table({**columns, "label": truth}), tmp_path / "a.parquet")
        for suffix in ("npz", "json", "jsonl", "parquet"):
            if labels is None:
                with pytest.raises(
                    InputError, match=r"could be names of classes \(1, 2, 3, …\) or class numbers from 0"
                ):
                    read(tmp_path / f"a.{suffix}")
            else:
                found, took = read(tmp_path / f"a.{suffix}")
                assert found == (np.arange(300) % 3).tolist(), suffix
                assert took.endswith(f"labels read as class {says}"), suffix


@pytest.mark.parametrize(
    ("texts", "names", "wanted"),
    [
        (["cat", "dog"], ["cat", "dog"], ("names",)),
        (["0", "1"], ["cat", "dog"], ("from-0",)),
        (["cat", "1"], ["cat", "dog"], ()),
        (["0", "2"], ["cat", "dog"], ()),
        (["1.0", "0.0"], ["0", "1"], ("from-0",)),
        (["1", "0"], ["1", "0"], ("from-0", "names")),
        (["7", "9"], ["07", "09"], ("names",)),
        (["0"], ["0", "2"], ("from-0",)),
        (["0", "1"], [], ("from-0",)),
    ],
)
def test_readings_that_a_column_allows(texts: list[str], names: list[str], wanted: tuple[str, ...]) -> None:
    assert possible(texts, 2, names) == wanted


def test_half_names_half_numbers_are_refused(tmp_path: Path, fast: bool) -> None:
    path = table(tmp_path / "a.csv", "label,prob_cat,prob_dog", ["cat", "dog", "1"] * 50, [0, 1, 1] * 50, 2)
    with pytest.raises(InputError, match=r"among cat, dog, but 50 of 150 rows have others: row 2 has 1, row 5 has 1"):
        read(path)


def test_names_that_two_classes_share(tmp_path: Path) -> None:
    logits, labels = made(200)
    names = np.array(["cat", "cat", "dog"])
    np.savez(tmp_path / "a.npz", logits=logits, labels=names[labels], class_names=names)
    with pytest.raises(InputError, match=r"every class name once, but 'cat' stands for several classes in a\.npz"):
        open_predictions(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", logits=logits, labels=labels, class_names=names)
    (found,) = audit(tmp_path / "b.npz")
    assert "The class name 'cat' stands for several classes; they are told apart by their numbers." in found.notes
    (tmp_path / "c.csv").write_text("label,p_cat,prob_cat\ncat,0.5,0.5\n" * 1)
    with pytest.raises(InputError, match="every class name once, but 'cat' stands for several classes"):
        open_predictions(tmp_path / "c.csv")


def test_the_files_of_a_run_say_what_their_labels_are(tmp_path: Path) -> None:
    """The very labels that would be ambiguous from anybody else: the first class has no example."""
    logits = 5 * np.eye(12, dtype=np.float32)[np.arange(1, 12).repeat(9)]
    names = tuple(sorted(map(str, range(1, 13))))
    folder = RunFolder(tmp_path)
    folder.write_predictions(Predictions(logits, np.arange(1, 12).repeat(9), "test", class_names=names))
    (found,) = audit(tmp_path / "predictions" / "test.npz")
    assert found.verdict.accuracy.estimate == 1
    assert found.took.endswith("labels read as class numbers 0…11, as the file says")
    assert folder.predictions("test").class_names == names


def pictures(root: Path) -> None:
    """Twelve folders called 1…12 of plain grey pictures, each of its own brightness."""
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    rng = np.random.default_rng(0)
    for part, n in (("train", 40), ("test", 10)):
        for k in range(12):
            (root / part / str(k + 1)).mkdir(parents=True)
            for i in range(n):
                noise = rng.integers(0, 6, (4, 4, 3), dtype=np.uint8)
                noise[k // 4, k % 4] += 200
                image.fromarray(noise).save(root / part / str(k + 1) / f"{i}.png")


def test_a_run_on_folders_called_1_to_12_is_audited_as_it_was_trained(tmp_path: Path, run_command: RunCommand) -> None:
    pictures(tmp_path / "pictures")
    words = "--data image_folder:path=pictures,size=4 --epochs 8 --model mlp:width=32 --json --out run"
    done = run_command("train", *words.split())
    assert done.returncode == 0, done.stderr
    accuracy = json.loads(done.stdout)["accuracy"]["mean"]
    assert accuracy > 0.9
    audited = json.loads(run_command("audit", "run/predictions/test.npz", "--json", "--no-page").stdout)["audits"][0]
    assert audited["measures"]["accuracy"]["estimate"] == pytest.approx(accuracy, abs=1e-9)
    with np.load(tmp_path / "run" / "predictions" / "calibration.npz") as file:
        right = float((file["logits"].argmax(1) == file["labels"]).mean())
    fitted = run_command("calibrate", "run/predictions/calibration.npz", "--json", "--method", "temperature")
    candidates = {each["name"]: each["accuracy"] for each in json.loads(fitted.stdout)["candidates"]}
    assert candidates["none"] == pytest.approx(right, abs=1e-9)
    applied = run_command("calibrate", "run/predictions/test.npz", "--apply", "calibrator.json", "--out", "r.npz")
    assert applied.returncode == 0, applied.stderr
    repaired = json.loads(run_command("audit", "r.npz", "--json", "--no-page").stdout)["audits"][0]
    assert repaired["measures"]["accuracy"]["estimate"] == pytest.approx(accuracy, abs=1e-9)
    assert "as the file says" in repaired["took"]


def test_an_unknown_meaning_is_one_clear_line(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(60)
    np.savez(tmp_path / "a.npz", probs=softmax(logits), labels=labels)
    for words, says in {
        "--labels-are numbers": "Expected --labels-are to be from-0, from-1, names, but got 'numbers'",
        "--labels-are names": "Expected names of classes to look labels up in, but a.npz has none",
        "--labels-are from-1": "Expected labels in 1…3, but",
        "--percent --probs": "Expected one of --logits, --probs and --percent, but got two",
    }.items():
        done = run_command("audit", "a.npz", *words.split())
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
