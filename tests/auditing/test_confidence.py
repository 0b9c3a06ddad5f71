"""A confidence and whether it was right: read from many spellings, judged as it is, and repaired."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.errors import InputError
from surefoot.schema import Predictions
from surefoot.sources._confidence import confidences, judgements
from tests.conftest import RunCommand


def made(n: int = 2000, *, sharper: float = 2.0, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds from which being right is drawn, made sharper and shifted."""
    rng = np.random.default_rng(0)
    z = rng.normal(0.6, 1.2, n)
    right = rng.random(n) < 1 / (1 + np.exp(-z))
    return 1 / (1 + np.exp(-(sharper * z + shift))), right


def write(path: Path, sure: list[str], right: list[str], names: tuple[str, str] = ("confidence", "correct")) -> Path:
    path.write_text(
        f"id,{names[0]},{names[1]}\n"
        + "".join(f"q{i},{a},{b}\n" for i, (a, b) in enumerate(zip(sure, right, strict=True)))
    )
    return path


def slow_ece(sure: np.ndarray, right: np.ndarray, n_bins: int = 15) -> float:
    total = 0.0
    for low in range(n_bins):
        inside = (sure > low / n_bins) & (sure <= (low + 1) / n_bins) | ((sure == 0) & (low == 0))
        total += abs(sure[inside].sum() - right[inside].sum())
    return total / len(sure)


@pytest.mark.parametrize("way", ["csv", "npz", "frame", "arrays", "predictions", "logits"])
def test_every_way_in_has_the_values_of_the_peers(way: str, tmp_path: Path) -> None:
    sure, right = made(shift=0.7)
    if way == "csv":
        found = sf.audit(write(tmp_path / "a.csv", list(map(repr, sure.tolist())), [str(x) for x in right])).audit
    elif way == "npz":
        np.savez(tmp_path / "a.npz", conf=sure, is_correct=right)
        found = sf.audit(tmp_path / "a.npz").audit
    elif way == "frame":
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        found = sf.audit(pandas.DataFrame({"box score": sure, "tp": right})).audit
    elif way == "arrays":
        found = sf.audit(probs=sure, labels=right, form="confidence").audit
    elif way == "logits":
        found = sf.audit(logits=np.log(sure / (1 - sure)), labels=right, form="confidence").audit
    else:
        logits = np.stack([np.zeros(len(sure)), np.log(sure / (1 - sure))], 1)
        found = sf.audit(Predictions(logits, right.astype(int), "test", form="confidence")).audit
    assert found.form == "confidence"
    assert found.two_classes is None
    measures = {key: each.estimate for key, each in found.measures.items()}
    assert measures["ece"] == pytest.approx(slow_ece(sure, right), abs=1e-9)
    assert measures["accuracy"] == pytest.approx(right.mean())
    assert measures["confidence_gap"] == pytest.approx(sure.mean() - right.mean())
    peer = pytest.importorskip("torchmetrics.functional.classification", reason="torchmetrics is not installed")
    theirs = peer.binary_calibration_error(torch.tensor(sure), torch.tensor(right).long(), n_bins=15)
    assert measures["ece"] == pytest.approx(theirs.item(), abs=1e-4)
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    assert measures["brier"] == pytest.approx(sklearn.brier_score_loss(right, sure), abs=1e-9)
    assert measures["nll"] == pytest.approx(sklearn.log_loss(right, sure), abs=1e-9)
    assert measures["misclassification_auroc"] == pytest.approx(sklearn.roc_auc_score(right, sure), abs=1e-9)
    assert "classwise_ece" not in measures


def test_a_temperature_is_advised_where_it_is_enough_and_others_where_not() -> None:
    sharp, right = made(4000, sharper=2.5)
    found = sf.audit({"confidence": sharp, "correct": right}).audit
    assert found.confidence is not None
    assert [each.name for each in found.confidence.advised] == ["temperature"]
    assert 2.2 < (found.confidence.repairs[0].temperature or 0) < 2.8
    shifted, right = made(4000, sharper=1.0, shift=1.5)
    found = sf.audit({"confidence": shifted, "correct": right}).audit
    assert found.confidence is not None
    assert {"platt", "beta", "isotonic"} == {each.name for each in found.confidence.advised}
    assert re.search(
        r"^over-confident by [\d.]+ points, 95 % interval [\d.]+–[\d.]+: mean confidence [\d.]+ % where [\d.]+ % are "
        r"right; \w+, \w+ or \w+ bring ECE from [\d.]+ % to [\d.–]+ %, a temperature does not \([\d.]+ %\)$",
        found.sentence(),
    ), found.sentence()


def test_half_sure_and_mostly_wrong_is_over_confident_and_not_the_other_way_round() -> None:
    sure, right = np.full(1000, 0.3), np.arange(1000) % 10 == 0  # the likelier column would say 70 % sure, 90 % right
    found = sf.audit({"confidence": sure, "correct": right}).audit
    assert found.verdict.finding == "over-confident"
    assert found.verdict.gap.estimate == pytest.approx(0.2)


def test_spellings() -> None:
    texts = ["90%", "90 %", "0.9", "9/10", "9 out of 10", "90 percent", "n/a", None]
    assert confidences(texts, None, 0, "a") == pytest.approx([0.9] * 6 + [float("nan")] * 2, nan_ok=True)
    assert confidences([90, 85.5], "percent", 0, "a") == pytest.approx([0.9, 0.855])
    assert confidences(["90%", "90"], "percent", 0, "a") == pytest.approx([0.9, 0.9])
    words = ["yes", "No", "TRUE", "false", "1", "0.0", "Right", "wrong", True, False, 1, 0, "tp", "fp"]
    assert judgements(words, 0, "a").tolist() == [1, 0] * 7


@pytest.mark.parametrize(
    ("sure", "right", "says"),
    [
        (["0.5", "very sure"], ["1", "0"], "such as 0.9, 90% or 9/10, but row 1 has 'very sure' in a.csv"),
        (["0.5", "85"], ["1", "0"], "row 1 has 85 in a.csv. Say --percent if they are percent"),
        (["0.5", "-3"], ["1", "0"], "row 1 has -3 in a.csv. Correct it, or say --logits"),
        (["0.5", "120%"], ["1", "0"], "row 1 has 120% in a.csv"),
        (["0.5", "0.7"], ["1", "maybe"], "1 or 0, or yes or no, for right and wrong, but row 1 has 'maybe' in a.csv"),
        (["0.5", ""], ["1", "0"], "1 of 2 rows has a gap, NaN or infinity (row 1; in 'confidence' 1×)"),
        (["0.5", "0.6"], ["1", ""], "1 of 2 rows has a gap, NaN or infinity (row 1; in 'correct' 1×)"),
        ([], [], "Expected at least one row, but a.csv has none"),
    ],
)  # fmt: skip
def test_what_is_refused(sure: list[str], right: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        sf.audit(write(tmp_path / "a.csv", sure, right))


def test_a_column_called_label_has_to_be_said(tmp_path: Path) -> None:
    sure, right = made(300)
    path = write(tmp_path / "a.csv", list(map(str, sure)), [str(int(x)) for x in right], ("score", "label"))
    assert sf.audit(path).audit.two_classes is not None  # a risk, as before
    found = sf.audit(path, form="confidence").audit
    assert found.form == "confidence"
    assert found.took == "'score' as confidence, 'label' as whether it was right"
    plain = write(tmp_path / "b.csv", ["0.5"], ["1"], ("width", "height"))
    with pytest.raises(InputError, match=r"Expected columns such as confidence and correct, but b\.csv has id, width"):
        sf.audit(plain, form="confidence")
    by_name = sf.audit(plain, form="confidence", scores="width", labels="height").audit
    assert by_name.n == 1


def test_confidence_beside_scores_of_classes_is_left_alone(tmp_path: Path) -> None:
    rows = "label,prob_a,prob_b,confidence,correct\n" + "a,0.8,0.2,0.8,1\nb,0.7,0.3,0.7,0\n" * 20
    (tmp_path / "a.csv").write_text(rows)
    assert sf.audit(tmp_path / "a.csv").audit.form == "multiclass"


def test_sure_and_wrong_has_no_finite_nll_but_can_be_repaired() -> None:
    sure, right = made(2000)
    sure = np.round(sure, 1)  # as people say it: 0 %, 10 %, … 100 %
    found = sf.audit({"confidence": sure, "correct": right}).audit
    assert found.measures["nll"].estimate == np.inf
    assert any("a confidence of 100 % and was wrong" in note for note in found.notes)
    assert found.confidence is not None
    assert found.confidence.repairs[0].nll < 0.7


def test_two_confidences_of_the_same_predictions_are_compared_as_they_are() -> None:
    sure, right = made()
    calm, _ = made(sharper=1.0)
    both = sf.audit({"confidence": sure, "correct": right}, {"confidence": calm, "correct": right})
    assert both.comparison is not None
    gap = both.comparison.differences["confidence_gap"].estimate
    assert gap == pytest.approx(sure.mean() - calm.mean())
    brier = both.comparison.differences["brier"].estimate
    assert brier == pytest.approx(np.square(sure - right).mean() - np.square(calm - right).mean())
    with pytest.raises(InputError, match="two confidences of the same predictions"):
        sf.audit({"confidence": sure, "correct": right}, {"confidence": calm, "correct": ~right})


def test_slices_terminal_and_page_speak_of_confidence_and_right(run_command: RunCommand, tmp_path: Path) -> None:
    sure, right = made()
    sites = np.where(np.arange(len(sure)) % 2, "north", "south")
    rows = zip(sure, right.astype(int), sites, strict=True)
    (tmp_path / "a.csv").write_text("confidence,correct,site\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    done = run_command("audit", "a.csv", "--group", "site", "--out", "a.html")
    assert done.returncode == 0, done.stderr
    assert "confidence − right" in done.stdout
    assert "site = north" in done.stdout
    assert "2,000 predictions, each with its confidence" in done.stdout
    assert "class" not in done.stdout
    page = (tmp_path / "a.html").read_text()
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", "", page, flags=re.DOTALL)
    assert "classes" not in text
    assert "What repairs would bring" in text


def test_only_what_fits_a_confidence_is_fitted(tmp_path: Path) -> None:
    sure, right = made(400)
    fitted = sf.calibrate({"confidence": sure, "correct": right})
    names = {each.name for each in fitted.comparison.candidates}
    assert names == {"none", "temperature", "platt", "beta", "isotonic"}
    with pytest.raises(InputError, match="for confidence, but got 'dirichlet': a confidence says how sure"):
        sf.calibrate({"confidence": sure, "correct": right}, method="dirichlet")


def test_a_folder_of_parts_is_read_as_one(tmp_path: Path) -> None:
    sure, right = made(600)
    texts, votes = [f"{each:.6f}" for each in sure], [str(int(each)) for each in right]
    whole = sf.audit(write(tmp_path / "all.csv", texts, votes))
    (tmp_path / "parts").mkdir()
    for number, rows in enumerate((slice(0, 250), slice(250, 600))):
        write(tmp_path / "parts" / f"{number}.csv", texts[rows], votes[rows])
    found = sf.audit(tmp_path / "parts")
    assert found.audit.form == "confidence"
    assert found.measures["ece"].estimate == pytest.approx(whole.measures["ece"].estimate, abs=1e-12)
    np.save(tmp_path / "a.npy", sure)
    with pytest.raises(InputError, match=r"Expected a table or an \.npz with --form confidence, but got a\.npy"):
        sf.audit(tmp_path / "a.npy", form="confidence")
