"""Every usual file is read, in pieces, and it is said what was taken for what."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from surefoot.errors import InputError
from surefoot.sources import _json, open_predictions
from surefoot.sources._columns import pick_columns
from surefoot.sources.names import pick_arrays, take_apart
from tests.auditing.made import NAMES, made, softmax, write


def rows(path: Path, **options: object) -> tuple[np.ndarray, np.ndarray]:
    (source,) = open_predictions(path, **options)
    chunks = list(source.chunks())
    scores = np.concatenate([chunk.scores for chunk in chunks])
    return (softmax(scores) if source.kind == "logits" else scores), np.concatenate([chunk.labels for chunk in chunks])


@pytest.mark.parametrize("suffix", ["npz", "csv", "tsv", "json", "jsonl", "parquet"])
@pytest.mark.parametrize("at_once", [7 * 3, 1 << 18], ids=["in pieces", "at once"])
def test_every_format_gives_the_same_rows(
    tmp_path: Path, suffix: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    monkeypatch.setattr("surefoot.sources.source.VALUES_AT_ONCE", at_once)
    monkeypatch.setattr(_json, "_WINDOW", 50)
    logits, labels = made(100)
    path = write(tmp_path / f"a.{suffix}", logits, labels)
    probs, found = rows(path)
    np.testing.assert_allclose(probs, softmax(logits), atol=1e-6)
    np.testing.assert_array_equal(found, labels)
    (source,) = open_predictions(path)
    assert source.class_names == (() if suffix == "jsonl" else NAMES)
    shares = [chunk.share for chunk in source.chunks()]
    assert shares[-1] == pytest.approx(1.0)
    assert shares == sorted(shares)


def test_json_rows_gzip_and_compressed_npz(tmp_path: Path) -> None:
    logits, labels = made(50)
    probs = softmax(logits).tolist()
    records = [{"y": int(y), "p": p} for y, p in zip(labels, probs, strict=True)]
    (tmp_path / "a.json").write_text(json.dumps(records))
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    np.savez_compressed(tmp_path / "a.npz", logits=np.asfortranarray(logits), targets=labels.astype(float))
    for name in ("a.json", "a.jsonl.gz", "a.npz"):
        found, truth = rows(tmp_path / name)
        np.testing.assert_allclose(found, probs, atol=1e-6)
        np.testing.assert_array_equal(truth, labels)


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", ">f8"])
def test_any_float_type_and_byte_order(tmp_path: Path, dtype: str) -> None:
    logits, labels = made(50)
    np.savez(tmp_path / "a.npz", logits=logits.astype(dtype), labels=labels.astype(">i4"))
    probs, found = rows(tmp_path / "a.npz")
    np.testing.assert_allclose(probs, softmax(logits), atol=2e-3)
    np.testing.assert_array_equal(found, labels)


def test_a_pair_of_npy_files(tmp_path: Path) -> None:
    logits, labels = made(50)
    np.save(tmp_path / "test_logits.npy", logits)
    np.save(tmp_path / "val_labels.npy", labels[:20])
    with pytest.raises(InputError, match=r"Expected labels beside test_logits.npy, but found none. Pass --labels"):
        open_predictions(tmp_path / "test_logits.npy")
    np.save(tmp_path / "test_labels.npy", labels)
    (source,) = open_predictions(tmp_path / "test_logits.npy")
    assert "test_logits.npy as logits, test_labels.npy as labels" in source.took
    np.save(tmp_path / "other.npy", labels)
    probs, _ = rows(tmp_path / "test_logits.npy", labels=str(tmp_path / "other.npy"))
    np.testing.assert_allclose(probs, softmax(logits), atol=1e-6)


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["predictions", "ground_truth"], [("predictions", None, "ground_truth", "", "")]),
        (["preds", "probs", "labels"], [("probs", "probs", "labels", "", "")]),
        (["probs", "logits", "y"], [("logits", "logits", "y", "", "")]),
        (["log_probs", "targets"], [("log_probs", "logits", "targets", "", "")]),
        (["yTrue", "yProba"], [("yProba", "probs", "yTrue", "", "")]),
        (
            ["val_logits", "val_labels", "test_logits", "test_labels"],
            [
                ("val_logits", "logits", "val_labels", "", "calibration"),
                ("test_logits", "logits", "test_labels", "", "test"),
            ],
        ),
        (
            ["resnet_logits", "vgg_probs", "labels"],
            [("resnet_logits", "logits", "labels", "resnet", ""), ("vgg_probs", "probs", "labels", "vgg", "")],
        ),
        (["features", "names"], []),
        (["test_logits", "val_labels"], []),
    ],
)
def test_names_in_the_wild(keys: list[str], wanted: list[tuple]) -> None:
    picks, _ = pick_arrays(keys)
    assert [(p.scores[0], p.kind, p.labels, p.model, p.split) for p in picks] == wanted


def test_columns_in_the_wild() -> None:
    assert pick_columns(["y", "p0", "p1", "price", "problem_id"])[0].scores == ("p0", "p1")
    assert pick_columns(["label", "logits[0]", "logits[1]"])[0].class_names == ("0", "1")
    both = pick_columns(["label", "vgg_prob_a", "vgg_prob_b", "resnet.logit.a", "resnet.logit.b"])
    assert {(pick.model, pick.kind) for pick in both} == {("vgg", "probs"), ("resnet", "logits")}
    assert take_apart("price") is None


def test_columns_called_as_the_classes_and_no_running_number(tmp_path: Path) -> None:
    text = "id,label,cat,dog,confidence\n7,cat,0.9,0.1,0.9\n8,dog,0.25,0.75,0.75\n"
    (tmp_path / "a.csv").write_text("\ufeff" + text.replace(",", ";"))
    probs, labels = rows(tmp_path / "a.csv")
    assert probs.tolist() == [[0.9, 0.1], [0.25, 0.75]]
    assert labels.tolist() == [0, 1]


def test_classes_called_by_numbers_are_looked_up(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,p1,p2,p10\n10,0,0,1\n1,1,0,0\n")
    assert rows(tmp_path / "a.csv")[1].tolist() == [2, 0]


def test_two_classes_in_one_column_and_one_hot_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", probs=np.array([0.9, 0.2]), labels=np.array([1, 0]))
    np.savez(tmp_path / "b.npz", logits=np.array([0.0, 1.0]), labels=np.array([[0, 1], [1, 0]]))
    (tmp_path / "c.csv").write_text("label,prob\n1,0.9\n0,0.2\n")
    for name, wanted in (("a", [[0.1, 0.9], [0.8, 0.2]]), ("b", [[0.5, 0.5], [0.26894, 0.73106]])):
        probs, labels = rows(tmp_path / f"{name}.npz")
        np.testing.assert_allclose(probs, wanted, atol=1e-5)
        assert labels.tolist() == [1, 0]
    np.testing.assert_allclose(rows(tmp_path / "c.csv")[0], [[0.1, 0.9], [0.8, 0.2]])


def test_it_says_what_it_took_and_refuses_when_it_cannot_tell(tmp_path: Path) -> None:
    labels = np.array([0, 1])
    np.savez(tmp_path / "probs.npz", scores=np.array([[0.5, 0.5], [0.1, 0.9]]), labels=labels)
    np.savez(tmp_path / "logits.npz", scores=np.array([[0.5, 2.5], [0.1, 0.9]]), labels=labels)
    np.savez(tmp_path / "unclear.npz", scores=np.array([[0.5, 0.4], [0.1, 0.9]]), labels=labels)
    np.savez(tmp_path / "wrong.npz", logits=np.array([[0.5, 0.5], [0.1, 0.9]]), labels=labels)
    assert "(probs, by their values)" in open_predictions(tmp_path / "probs.npz")[0].took
    assert "(logits, by their values)" in open_predictions(tmp_path / "logits.npz")[0].took
    for name, says in (
        ("unclear", r"row 0 sums to 0.9.*multi-label table: audit every class on its own.*say --logits if"),
        ("wrong", "all rows sum to 1 like probabilities.*Say --logits or --probs"),
    ):
        with pytest.raises(InputError, match=says):
            open_predictions(tmp_path / f"{name}.npz")
        (source,) = open_predictions(tmp_path / f"{name}.npz", kind="logits")
        assert "(logits, as you said)" in source.took
