"""Prediction sets of files: fitted, measured on other rows, saved, and added to new rows in every format."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.auditing import apply_sets, conformal
from surefoot.auditing._sampling import halves as dealt
from surefoot.calibrators import fit_temperature
from surefoot.errors import InputError, SplitError
from surefoot.schema import Predictions
from tests.auditing.made import NAMES, made, softmax, write
from tests.auditing.test_apply import unlabelled
from tests.conftest import RunCommand
from tests.prediction_sets.made import slow_sets

FORMATS = ["npz", "csv", "tsv", "jsonl", "json", "parquet", "csv.gz"]
NEW = made(50, seed=1)[0]


def rows(n: int = 300, seed: int = 0, split: str = "calibration") -> Predictions:
    logits, labels = made(n, seed=seed)
    return Predictions(logits.astype(np.float64), labels, split)  # type: ignore[arg-type]


@pytest.fixture
def fitted(tmp_path: Path, run_command: RunCommand) -> Any:
    """LAC sets fitted on a csv with columns prob_shirt, prob_coat and prob_bag."""
    write(tmp_path / "val.csv", *made(300))
    write(tmp_path / "test.csv", *made(400, seed=3), sites=["north", "south"] * 200)
    done = run_command("conformal", "val.csv", "--test", "test.csv", "--method", "lac")
    assert done.returncode == 0, done.stderr
    return sf.load_sets(tmp_path / "sets.json")


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "jsonl"])
def test_sets_of_files_are_those_of_a_loop_and_are_measured_on_the_test_rows(ending: str, tmp_path: Path) -> None:
    for name, seed, n in (("val", 0, 300), ("test", 3, 200)):
        write(tmp_path / f"{name}.{ending}", *made(n, seed=seed))
    found = conformal(tmp_path / f"val.{ending}", tmp_path / f"test.{ending}", method="lac")
    test = rows(200, seed=3)
    slow = np.array(slow_sets("lac", rows(), test.logits, 0.9, seed=0))
    np.testing.assert_array_equal(found.sets.sets(logits=test.logits), slow)
    assert found.measures.coverage.estimate == pytest.approx(slow[np.arange(200), test.labels].mean())
    assert found.measures.mean_size.estimate == pytest.approx(slow.sum(1).mean())
    assert (found.n, found.measures.n, found.sets.n) == (300, 200, 300)
    assert found.measured_sets == found.sets


def test_a_calibration_and_a_test_set_in_one_file(tmp_path: Path) -> None:
    a, b = made(300), made(200, seed=3)
    np.savez(tmp_path / "both.npz", val_logits=a[0], val_labels=a[1], test_logits=b[0], test_labels=b[1])
    write(tmp_path / "val.npz", *a)
    write(tmp_path / "test.npz", *b)
    together = conformal(tmp_path / "both.npz", method="aps")
    apart = conformal(tmp_path / "val.npz", tmp_path / "test.npz", method="aps")
    assert together.sets.thresholds == apart.sets.thresholds
    assert together.measures.coverage == apart.measures.coverage


def test_one_set_is_divided_and_what_is_saved_is_fitted_on_all(tmp_path: Path) -> None:
    logits, labels = made(301)
    write(tmp_path / "all.npz", logits, labels)
    found = conformal(tmp_path / "all.npz", method="lac")
    halves = dealt(np.arange(301))
    one = Predictions(logits[halves == 0].astype(float), labels[halves == 0], "calibration")
    inside = np.array(slow_sets("lac", one, logits[halves == 1].astype(float), 0.9, seed=0))
    assert found.measures.n == (halves == 1).sum()
    assert found.measures.coverage.estimate == pytest.approx(inside[np.arange(len(inside)), labels[halves == 1]].mean())
    assert found.sets.n == 301
    assert found.measured_sets.n == (halves == 0).sum()
    assert found.measured_on.startswith(
        f"the other half of all.npz, with sets fitted on {(halves == 0).sum()} rows; tho"
    )
    found.save(tmp_path / "sets.json")
    with pytest.raises(SplitError, match=r"but all\.npz holds those very rows: coverage would flatter"):
        apply_sets(tmp_path / "sets.json", tmp_path / "all.npz", tmp_path / "out.npz")


def test_arrays_frames_and_files_give_the_same(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    logits, labels = made(300)
    probs, test = softmax(logits), softmax(made(200, seed=3)[0])
    columns = {f"prob_{name}": probs[:, k] for k, name in enumerate(NAMES)}
    tested = {f"prob_{name}": test[:, k] for k, name in enumerate(NAMES)}
    truth = made(200, seed=3)[1]
    reports = [
        sf.conformal(probs=probs, labels=labels, test={"probs": test, "labels": truth}, class_names=NAMES),
        sf.conformal(pandas.DataFrame({**columns, "label": labels}), pandas.DataFrame({**tested, "label": truth})),
        sf.conformal(polars.DataFrame({**columns, "label": labels}), polars.DataFrame({**tested, "label": truth})),
    ]
    assert len({report.prediction_sets.thresholds for report in reports}) == 1
    assert reports[0].to_json()["measured"]["coverage"] == reports[2].to_json()["measured"]["coverage"]
    assert reports[0].names(test)[0] == reports[1].names(test)[0]
    report = reports[0]
    assert str(report).startswith("LAC sets hold the true class in ")
    assert report.sentence() in report._repr_html_()
    assert report.save(tmp_path / "sets.json") == tmp_path / "sets.json"
    assert sf.load_sets(tmp_path / "sets.json") == report.prediction_sets
    json.dumps(report.to_json(), allow_nan=False)
    with_group = sf.conformal(probs=probs, labels=labels, method="lac", group={"site": ["a", "b", "c"] * 100})
    assert [each.value for each in with_group.measures.groups] == ["a", "b", "c"]


def test_a_calibrator_that_comes_first_was_fitted_on_other_rows(tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "val.csv", *made(300, temperature=0.5))
    write(tmp_path / "more.csv", *made(300, temperature=0.5, seed=7))
    write(tmp_path / "test.csv", *made(200, temperature=0.5, seed=3))
    assert run_command("calibrate", "val.csv", "--method", "temperature").returncode == 0
    words = ["--method", "aps", "--calibrator", "calibrator.json"]
    done = run_command("conformal", "more.csv", "--test", "test.csv", *words)
    assert done.returncode == 0, done.stderr
    assert "Sets: aps:randomised=true behind the calibrator temperature, fitted on 300 rows." in done.stdout
    saved = sf.load_sets(tmp_path / "sets.json")
    assert saved.calibrator == sf.load_calibrator(tmp_path / "calibrator.json")
    done = run_command("conformal", "val.csv", "--test", "test.csv", *words)
    assert done.returncode == 2
    assert "Expected a calibrator that was fitted on other rows than the sets, but calibrator.json was" in done.stderr
    done = run_command("conformal", "more.csv", "--test", "val.csv", *words)
    assert "Expected other rows to measure on than the calibrator was fitted on, but val.csv holds those" in done.stderr
    temperature = fit_temperature(Predictions(*made(300, seed=7), "calibration"))
    by_object = sf.conformal(tmp_path / "more.csv", tmp_path / "test.csv", method="lac", calibrator=temperature)
    assert by_object.prediction_sets.calibrator == temperature


@pytest.mark.parametrize("source", ["csv", "npz", "npy", "jsonl", "json", "parquet"])
def test_sets_are_added_to_new_rows(source: str, fitted: Any, tmp_path: Path, run_command: RunCommand) -> None:
    unlabelled(tmp_path / f"new.{source}", softmax(NEW))
    inside = fitted.sets(softmax(NEW))
    names = fitted.names(softmax(NEW))
    for ending in FORMATS if source in ("csv", "jsonl") else ["csv", "npz", source.replace("npy", "npz")]:
        done = run_command("conformal", f"new.{source}", "--apply", "sets.json", "--out", f"r.{ending}")
        assert done.returncode == 0, done.stderr
        assert "no labels to measure coverage by" in done.stdout
        columns = read_columns(tmp_path / f"r.{ending}")
        assert [int(size) for size in columns["set_size"]] == inside.sum(1).tolist(), ending
        if ending == "npz":
            np.testing.assert_array_equal(columns["sets"], inside)
        else:
            assert columns["set"] == names, ending
        assert list(columns.get("id", [])) == ([] if source == "npy" else [f"x{i}" for i in range(50)]), ending
        scores = [name for name in columns if name.startswith(("prob", "logit"))]
        assert scores, ending


def read_columns(path: Path) -> dict[str, Any]:
    """Columns by other means than the project's own; lists in text are JSON."""
    import gzip

    if path.suffix == ".npz":
        with np.load(path) as found:
            return {name: found[name] for name in found.files}
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return dict(parquet.read_table(path).to_pydict())
    if path.suffix == ".json":
        return dict(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        lines = list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
        lines = [{**line, "set": json.loads(line["set"])} for line in lines]
    return {name: [line[name] for line in lines] for name in lines[0]}


def test_a_table_stays_as_it_was_and_labels_are_measured(fitted: Any, tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "labelled.csv", *made(60, seed=8), sites=["n", "s"] * 30)
    done = run_command("conformal", "labelled.csv", "--apply", "sets.json")
    assert "Written: labelled-sets.csv" in done.stdout
    before, after = ((tmp_path / f"labelled{end}.csv").read_text().splitlines() for end in ("", "-sets"))
    assert after[0] == before[0].replace('"', "") + ",set,set_size"
    with (tmp_path / "labelled-sets.csv").open() as file:
        kept = list(csv.DictReader(file))
    with (tmp_path / "labelled.csv").open() as file:
        for old, new in zip(csv.DictReader(file), kept, strict=True):
            for key, value in old.items():
                assert new[key] == value or float(new[key]) == pytest.approx(float(value), rel=1e-8)
    hits = [row["label"] in json.loads(row["set"]) for row in kept]
    assert f"the true class is in {100 * np.mean(hits):.1f} % of them, 95 % interval" in done.stdout
    values = json.loads(run_command("conformal", "labelled.csv", "--apply", "sets.json", "--json").stdout)
    assert values["measures"]["coverage"]["estimate"] == pytest.approx(np.mean(hits))
    assert run_command("audit", "labelled-sets.csv", "--no-page").returncode == 0


def test_one_row_and_empty_sets_are_written(fitted: Any, tmp_path: Path, run_command: RunCommand) -> None:
    unlabelled(tmp_path / "one.csv", softmax(NEW[:1]))
    done = run_command("conformal", "one.csv", "--apply", "sets.json")
    assert "Read: one.csv, 1 row: " in done.stdout
    strict = sf.PredictionSets("lac", 0.9, (-2.0,), (99,), 3, "calibration", NAMES)
    strict.save(tmp_path / "strict.json")
    unlabelled(tmp_path / "new.parquet", softmax(NEW))
    done = run_command("conformal", "new.parquet", "--apply", "strict.json")
    assert "sets of 0.00 classes on average, 0 % name one, 100 % none" in done.stdout
    assert read_columns(tmp_path / "new-sets.parquet")["set"] == [[]] * 50


def test_what_no_set_can_be_added_to_is_refused_in_one_sentence(
    fitted: Any, tmp_path: Path, run_command: RunCommand
) -> None:
    head = "prob_shirt,prob_coat,prob_bag"
    (tmp_path / "none.csv").write_text(f"{head}\n")
    (tmp_path / "text.csv").write_text(f"{head}\n0.2,0.3,0.5\n0.2,nan,0.5\n")
    (tmp_path / "other.csv").write_text("id,a,b\n1,0.2,0.8\n")
    (tmp_path / "turned.csv").write_text("label,prob_coat,prob_shirt,prob_bag\ncoat,0.2,0.3,0.5\nbag,0.2,0.3,0.5\n")
    (tmp_path / "taken.csv").write_text(f"{head},set\n0.2,0.3,0.5,x\n")
    np.savez(tmp_path / "two.npz", probs=np.full((3, 2), 0.5))
    np.savez(tmp_path / "two_labels.npz", probs=np.tile([0.4, 0.6], (3, 1)), labels=np.array([0, 1, 1]))
    np.savez(tmp_path / "named.npz", logits=softmax(NEW))
    sf.fit_temperature(rows()).save(tmp_path / "calibrator.json")
    for words, says in {
        "none.csv": "Expected at least one row, but none.csv has none",
        "text.csv": "Expected probabilities that are not negative and sum to 1, but row 1 has 0.2, nan, 0.5",
        "other.csv": "Expected the scores that the sets were fitted on, such as prob_shirt, prob_coat, prob_bag",
        "turned.csv": "Expected the classes shirt, coat, bag in this order, that the sets were fitted on",
        "taken.csv": "Expected no column 'set', which is added, but the file has one. Rename it.",
        "two.npz": "Expected sets for 2 classes, but these were fitted on 3",
        "two_labels.npz": "Expected sets for 2 classes, but these were fitted on 3",
        "named.npz": "Expected logits, as they are called, but all rows sum to 1 like probabilities in named.npz",
        "val.csv": "Expected other rows than the sets were fitted on, but val.csv holds those very rows",
        "test.csv --method aps": "Expected --method to fit sets or --apply to use saved ones, but got both",
        "test.csv --page p.html": "Expected --page to fit sets or --apply to use saved ones, but got both",
        "test.csv --coverage 0.8": "Expected --coverage to fit sets or --apply to use saved ones, but got both",
        "test.csv --apply calibrator.json": "Expected saved prediction sets, but got calibrator, temperature",
        "test.csv --out test.csv": "Expected to write another file than is read",
        "test.csv --out r.pkl": "Expected --out to end in .npz, .csv",
    }.items():
        name, *more = words.split()
        given = ("--apply", "sets.json") if "--apply" not in more else ()
        out = () if "--out" in more else ("--out", "r.csv")
        done = run_command("conformal", name, *given, *out, *more)
        assert done.returncode == 2, words
        assert says in done.stderr, words
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "r.csv").exists()


def test_what_cannot_be_fitted_is_refused_in_one_sentence(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(300)
    write(tmp_path / "val.npz", logits, labels)
    np.savez(tmp_path / "only.npz", test_logits=logits, test_labels=labels)
    np.savez(tmp_path / "two.npz", logits=logits[:, :2], labels=labels % 2)
    write(tmp_path / "copy.csv", logits, labels)
    np.savez(tmp_path / "few.npz", logits=logits[:12], labels=labels[:12])
    for words, says in {
        "only.npz": "Expected rows to fit sets on, but only.npz holds a test set only",
        "val.npz --test val.npz": "Expected other rows to measure on than the sets were fitted on, but val.npz holds",
        "val.npz --test copy.csv": "but copy.csv holds those very rows: coverage would flatter",
        "val.npz --test two.npz": "Expected 3 classes in two.npz, as in val.npz, but it has 2",
        "val.npz --coverage 90": "Expected a coverage between 0 and 1, but got 90.0",
        "val.npz --method apss": "Unknown conformal score 'apss'. Did you mean 'aps'",
        "val.npz --level 2": "Expected a level between 0 and 1, but got 2.0",
        "val.npz --out sets.pkl": "Expected --out to end in .json, but got 'sets.pkl'",
        "val.npz --page p.csv": "Expected --page to end in .html, but got 'p.csv'",
        "few.npz": "Expected at least 24 rows, of which half are measured on, to choose a score, but few.npz has 12",
        "val.npz --group hospital": "hospital",
    }.items():
        done = run_command("conformal", *words.split())
        assert done.returncode == 2, words
        assert says in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "sets.json").exists()
    done = run_command("conformal", "few.npz", "--method", "lac")
    assert "rows are too few for sets of 90 %" not in done.stdout  # 12 rows are enough
    assert done.returncode == 0
    np.savez(tmp_path / "four.npz", logits=logits[:8], labels=labels[:8])
    done = run_command("conformal", "four.npz", "--method", "lac")
    assert (
        "Note: 8 rows are too few for sets of 90 %: at least 9 are needed. Every set holds all classes." in done.stdout
    )
    with pytest.raises(InputError, match="Expected predictions, but got none"):
        sf.conformal()


def test_weights_of_a_file_enter_thresholds_and_coverage(tmp_path: Path, run_command: RunCommand) -> None:
    pandas = pytest.importorskip("pandas")
    logits, labels = made(200)
    counts = np.random.default_rng(0).integers(0, 4, 200)
    columns = {f"logit_{name}": logits[:, k] for k, name in enumerate(NAMES)}
    table = pandas.DataFrame({**columns, "label": np.array(NAMES)[labels], "weight": counts})
    new = table.assign(**{f"logit_{name}": made(200, seed=1)[0][:, k] for k, name in enumerate(NAMES)})
    new["label"] = np.array(NAMES)[made(200, seed=1)[1]]
    for name, each in (("val", table), ("test", new)):
        each.to_csv(tmp_path / f"{name}.csv", index=False)
        repeated = each.loc[each.index.repeat(each["weight"])].drop(columns="weight")
        repeated.to_csv(tmp_path / f"{name}-repeated.csv", index=False)
    weighted = sf.conformal(tmp_path / "val.csv", tmp_path / "test.csv", method="lac", weights_are="counts")
    repeated = sf.conformal(tmp_path / "val-repeated.csv", tmp_path / "test-repeated.csv", method="lac")
    assert weighted.prediction_sets.thresholds == repeated.prediction_sets.thresholds
    for key in ("estimate", "low", "high"):
        one, other = (getattr(each.measures.coverage, key) for each in (weighted, repeated))
        assert one == pytest.approx(other)
    assert weighted.measures.mean_size.estimate == pytest.approx(repeated.measures.mean_size.estimate)
    assert any("Rows were weighted" in note for note in weighted.fitted.notes)
    alike = run_command("conformal", "val.csv", "--test", "test.csv", "--method", "lac", "--no-weights", "--json")
    assert json.loads(alike.stdout)["rows"] == [200]
    assert "Rows were weighted" not in alike.stdout
    done = run_command("conformal", "test.csv", "--apply", "sets.json", "--skip-missing")
    assert "Expected a set for every row, but --skip-missing would leave some out" in done.stderr


def test_folders_are_read_as_one(tmp_path: Path) -> None:
    logits, labels = made(300)
    (tmp_path / "val").mkdir()
    for part in range(3):
        some = slice(100 * part, 100 * part + 100)
        write(tmp_path / "val" / f"{part}.parquet", logits[some], labels[some])
    write(tmp_path / "whole.parquet", logits, labels)
    found = [sf.conformal(tmp_path / each, method="lac").prediction_sets for each in ("val", "whole.parquet")]
    assert found[0].thresholds == found[1].thresholds


def test_shifted_rows_are_said_to_be_unlike(tmp_path: Path) -> None:
    write(tmp_path / "val.npz", *made(500))
    logits, labels = made(500, seed=4)
    write(tmp_path / "shifted.npz", logits, np.where(np.arange(500) % 2, labels, (labels + 1) % 3))
    found = sf.conformal(tmp_path / "val.npz", tmp_path / "shifted.npz", method="lac", labels_are="from-0")
    assert re.search(r"chance seldom gives so few \(p = \S+e-\d+\), so these rows may not be like", found.sentence())
    assert not found.measures.holds
    assert found.to_json()["measured"]["holds"] is False


def test_more_rows_than_are_kept_are_drawn_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.modules["surefoot.auditing.conformal"], "FITTED_VALUES", 3000)
    write(tmp_path / "val.npz", *made(3000))
    write(tmp_path / "test.npz", *made(2000, seed=1))
    found = conformal(tmp_path / "val.npz", tmp_path / "test.npz", method="lac")
    assert found.sets.n == 1000
    assert found.n == 3000
    assert "Thresholds rest on 1,000 rows drawn at random." in found.notes
    assert found.measures.holds
