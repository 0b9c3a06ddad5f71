"""Several labels per row: read from every layout, judged one by one and together, and repaired."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.corrections import holm
from surefoot.errors import InputError
from surefoot.metrics.multilabel import LabelStream, judge_labels
from tests.conftest import RunCommand
from tests.report.browser import unpacked

NAMES = ("cat", "dog", "bird")


def made(n: int = 1500, shifts: tuple[float, ...] = (0.0, 1.2, 0.0), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of labels that are drawn from them, before some are shifted."""
    rng = np.random.default_rng(seed)
    z = np.array([-2.0, -1.0, 0.0]) + rng.standard_normal((n, 1)) + rng.standard_normal((n, 3))
    labels = rng.random((n, 3)) < 1 / (1 + np.exp(-z))
    return 1 / (1 + np.exp(-z - np.array(shifts))), labels.astype(int)


def write(path: Path, probs: np.ndarray, labels: np.ndarray, way: str) -> Path:
    if way == "npz":
        np.savez(path, probs=probs, labels=labels, class_names=np.array(NAMES))
    elif way == "columns.csv":
        with path.open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*(f"prob_{name}" for name in NAMES), *(f"true_{name}" for name in NAMES)])
            out.writerows([[*map(repr, p), *y] for p, y in zip(probs.tolist(), labels.tolist(), strict=True)])
    elif way == "lists.jsonl":
        rows = zip(probs.tolist(), labels.tolist(), strict=True)
        path.write_text("".join(json.dumps({"probs": p, "labels": y, "classes": NAMES}) + "\n" for p, y in rows))
    else:
        lines = []
        for p, y in zip(probs.tolist(), labels.tolist(), strict=True):
            true = [name for name, one in zip(NAMES, y, strict=True) if one]
            scores = {f"prob_{name}": value for name, value in zip(NAMES, p, strict=True)}
            lines.append({**scores, "labels": true if way == "names.jsonl" else ";".join(true)})
        if way == "names.jsonl":
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        else:
            with path.open("w", newline="") as file:
                out = csv.DictWriter(file, list(lines[0]))
                out.writeheader()
                out.writerows(lines)
    return path


def slow_ece(p: np.ndarray, y: np.ndarray, n_bins: int = 15) -> float:
    total = 0.0
    for k in range(n_bins):
        inside = (p > k / n_bins) & (p <= (k + 1) / n_bins) | ((p == 0) & (k == 0))
        total += abs(p[inside].sum() - y[inside].sum())
    return total / p.size


@pytest.mark.parametrize("way", ["npz", "columns.csv", "lists.jsonl", "names.jsonl", "texts.csv", "arrays", "logits"])
def test_every_layout_has_the_values_of_a_slow_version_and_of_the_peers(way: str, tmp_path: Path) -> None:
    probs, labels = made()
    if way == "arrays":
        found = sf.audit(probs=probs, labels=labels, class_names=NAMES).audit
    elif way == "logits":
        found = sf.audit(logits=np.log(probs / (1 - probs)), labels=labels, class_names=NAMES).audit
    else:
        form = "multilabel" if way == "texts.csv" else None  # texts could be names of one class
        found = sf.audit(write(tmp_path / f"a.{way}", probs, labels, way), form=form).audit
    assert (found.form, found.n, found.n_classes) == ("multilabel", 1500, 3)
    assert found.labels is not None
    measures = {key: each.estimate for key, each in found.measures.items()}
    assert measures["accuracy"] == pytest.approx(labels.mean())
    assert measures["confidence_gap"] == pytest.approx(probs.mean() - labels.mean())
    assert measures["ece"] == pytest.approx(slow_ece(probs.ravel(), labels.ravel()), abs=1e-9)
    assert measures["brier"] == pytest.approx(np.square(probs - labels).mean())
    assert measures["nll"] == pytest.approx(-np.log(np.where(labels, probs, 1 - probs)).mean())
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    peer = pytest.importorskip("torchmetrics.functional.classification", reason="torchmetrics is not installed")
    for one in found.labels.each:
        p, y = probs[:, one.verdict.label], labels[:, one.verdict.label]
        assert one.name == NAMES[one.verdict.label]
        assert one.verdict.ece.estimate == pytest.approx(slow_ece(p, y), abs=1e-9)
        theirs = peer.binary_calibration_error(torch.tensor(p), torch.tensor(y), n_bins=15).item()
        assert one.verdict.ece.estimate == pytest.approx(theirs, abs=1e-4)
        assert one.auroc is not None
        assert one.auroc.estimate == pytest.approx(sklearn.roc_auc_score(y, p), abs=1e-9)
    assert [(one.name, one.verdict.finding) for one in found.labels.wrong] == [("dog", "overstated")]


def test_the_sentence_and_what_repairs() -> None:
    found = sf.audit(probs=made()[0], labels=made()[1], class_names=NAMES).audit
    assert re.search(
        r"^over 3 labels probabilities are overstated by [\d.]+ points, 95 % interval [\d.]+–[\d.]+; 1 of 3 labels is "
        r"miscalibrated, the worst dog \(overstated, ECE [\d.]+ %\); platt for every label brings ECE from [\d.]+ % to "
        r"[\d.]+ %, one temperature does not \([\d.]+ %\)$",
        found.sentence(),
    ), found.sentence()
    probs, labels = made(3000, (0.0, 0.0, 0.0), seed=1)
    fine = sf.audit(probs=probs, labels=labels).audit
    assert "calibrated as far as 3,000 rows can tell" in fine.sentence()
    assert fine.sentence().endswith("no single label is miscalibrated by more than chance; nothing to repair")
    z = np.log(probs / (1 - probs))
    sharp = sf.audit(logits=2 * z, labels=labels).audit
    assert sharp.repair is not None
    assert 1.8 < sharp.repair.temperature < 2.2
    assert re.search(r"temperature [12]\.\d\d brings ECE from", sharp.sentence()), sharp.sentence()


def test_copies_of_a_label_add_no_certainty() -> None:
    probs, labels = made(400)
    one, _ = judge_labels(probs, labels)
    many, _ = judge_labels(np.tile(probs, (1, 10)), np.tile(labels, (1, 10)))
    assert many.gap.estimate == pytest.approx(one.gap.estimate)
    assert many.gap.low == pytest.approx(one.gap.low)
    assert many.ece.estimate == pytest.approx(one.ece.estimate)
    assert many.ece.high == pytest.approx(one.ece.high)
    assert many.consistency.limit == pytest.approx(one.consistency.limit, rel=0.05)


def test_a_stream_of_rows_is_all_of_them() -> None:
    probs, labels = made(500)
    stream = LabelStream()
    for start in range(0, 500, 70):
        stream.update(probs[start : start + 70], labels[start : start + 70])
    micro, each = judge_labels(probs, labels)
    assert stream.micro().ece.estimate == pytest.approx(micro.ece.estimate)
    assert stream.micro().gap.low == pytest.approx(micro.gap.low)
    assert [one.label for one in stream.each()] == [one.label for one in each]
    residual = (probs - labels).mean(1)
    reach = 1.9647 * residual.std(ddof=1) / np.sqrt(500)
    assert micro.gap.high - micro.gap.estimate == pytest.approx(reach, rel=1e-3)


def test_holm_is_that_of_statsmodels() -> None:
    p = [0.001, 0.02, 0.04, 0.03, 0.5, 0.9]
    assert holm(p) == pytest.approx([0.006, 0.1, 0.12, 0.12, 1.0, 1.0])  # multipletests(p, method="holm")
    assert holm([]) == ()


def test_one_true_label_per_row_stays_multiclass_unless_it_is_said() -> None:
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), 300), np.eye(3, dtype=int)[rng.integers(0, 3, 300)]
    assert sf.audit(probs=probs, labels=labels).audit.form == "multiclass"
    found = sf.audit(probs=probs, labels=labels, form="multilabel").audit
    assert found.form == "multilabel"
    assert found.measures["accuracy"].estimate == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("probs", "labels", "options", "says"),
    [
        ([[0.5, 0.5]] * 2, [[1, 1], [0, 2]], {"form": "multilabel"}, "1 or 0 for every label, but row 1 has [0, 2]"),
        ([[0.5, 0.5]] * 3, [1, 0, 1], {"form": "multilabel"}, "Expected as many labels as scores in every row"),
        ([[0.5, 1.5]] * 3, [[1, 1]] * 3, {}, "probabilities in [0, 1] for every label, but row 0 has [0.5, 1.5]"),
        ([[0.5, 0.1]] * 3, [[1, 1]] * 3, {"metrics": "ece"}, "no class competes with another. Leave it out"),
        ([[0.5, 0.1]] * 3, [[1, 1]] * 3, {"positive": 1}, "Expected no --group or --positive with several labels"),
        ([[0.5, float("nan")]] * 3, [[1, 1]] * 3, {}, "3 of 3 rows have a gap"),
    ],
)  # fmt: skip
def test_what_is_refused(probs: list, labels: list, options: dict, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        sf.audit(probs=probs, labels=labels, **options)


def test_labels_without_scores_comparisons_and_fits_are_refused(tmp_path: Path) -> None:
    probs, labels = made(40)
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"prob_cat": 0.5, "prob_dog": 0.9, "labels": ["cat", "cow"]}) + "\n")
    with pytest.raises(InputError, match="Expected labels among cat, dog, but row 0 has 'cow'"):
        sf.audit(path)
    with pytest.raises(InputError, match="Expected one true class per row to compare"):
        sf.audit({"probs": probs, "labels": labels}, {"probs": probs, "labels": labels})
    with pytest.raises(InputError, match="Expected one true class per row to fit on"):
        sf.calibrate(probs=probs, labels=labels)
    rows = "prob_a,prob_b,label_a,label_b\n" + "0.4,0.6,1,0\n0.3,0.7,0,1\n"
    (tmp_path / "b.csv").write_text(rows)
    with pytest.raises(InputError, match=r"Say --form multilabel, or give one column of labels\."):
        sf.audit(tmp_path / "b.csv")
    assert sf.audit(tmp_path / "b.csv", form="multilabel").audit.n == 2


def test_the_terminal_and_the_page(run_command: RunCommand, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", *made(), "columns.csv")
    done = run_command("audit", "a.csv", "--out", "a.html")
    assert done.returncode == 0, done.stderr
    assert re.search(r"dog\s+\d+\s+[\d.]+\s+[\d.]+\s+\+", done.stdout)
    assert "corrected for the number of labels (Holm)" in done.stdout
    assert "1,500 examples, 3 labels" in done.stdout
    page = (tmp_path / "a.html").read_text().replace("&nbsp;", " ")
    drawn = unpacked(tmp_path / "a.html", "figures")
    assert "Of all labels given a probability of 80 %, 80 % should be true" in page
    assert "Risk and coverage" not in page
    titles = re.findall(r'"title": ?\{[^}]*"text": ?"([^"]+)"', drawn)
    assert {"probability", "frequency"} <= set(titles)
    assert "overstated: labels are true less often" in page
    assert "mean accuracy" not in page
    assert "Fit a Platt scaling for every label by itself" in page
