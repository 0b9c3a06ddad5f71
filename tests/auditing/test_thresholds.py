"""Act above a threshold: what an audit chooses and checks, from files and from memory, per group, and by weight."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.auditing import audit, compare_audits
from surefoot.auditing._confidence_counts import LOWER_ENDS, Cells, ConfidenceCounts
from surefoot.auditing._sampling import halves as dealt
from surefoot.auditing.thresholds import find_thresholds, risks_of
from surefoot.errors import InputError
from surefoot.metrics import risk_above, risk_threshold
from tests.auditing.made import softmax
from tests.conftest import RunCommand


def sure(n: int = 6000, *, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Three classes; three rows of four are easy, the others hard."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    logits = rng.standard_normal((n, 3))
    logits[np.arange(n), labels] += np.where(rng.random(n) < 0.75, 6.0, 1.0)
    return (spread * logits).astype(np.float32), labels


def halves(n: int) -> np.ndarray:
    return dealt(np.arange(n))


def test_the_grid_is_short_decimals_that_become_finer_towards_1() -> None:
    assert (np.diff(LOWER_ENDS) > 0).all()
    assert all(float(f"{end:.14g}") == end for end in LOWER_ENDS)
    assert {0.0, 0.5, 0.93, 0.999, 0.99991} <= set(LOWER_ENDS.tolist())
    assert np.diff(LOWER_ENDS).max() < 1.01e-4


def test_same_as_on_all_rows_at_once(tmp_path: Path) -> None:
    """The walk counts in cells; its threshold is the lower end of the one that the slow version's is in."""
    logits, labels = sure()
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    (found,) = audit(tmp_path / "a.npz", risk=0.02)
    (threshold,) = found.thresholds
    probs = softmax(logits)
    confidence, right, half = probs.max(1), probs.argmax(1) == labels, halves(len(labels))
    slow = risk_threshold(confidence[half == 0], right[half == 0], risk=0.02)
    assert slow.threshold is not None
    assert threshold.threshold == pytest.approx(slow.threshold, abs=2e-3)
    assert threshold.threshold in LOWER_ENDS
    check = risk_above(threshold.threshold, confidence[half == 1], right[half == 1])
    assert threshold.check is not None
    assert threshold.check.risk is not None
    assert threshold.check == check
    above = (half == 0) & (confidence >= threshold.threshold)
    assert (threshold.chosen.n_above, threshold.chosen.errors) == (above.sum(), (above & ~right).sum())
    assert threshold.chosen_on == "one half of the rows"
    assert threshold.curve[-1] == pytest.approx((1.0, 1 - right[half == 0].mean()))


def test_a_calibration_set_chooses_and_the_test_set_checks(tmp_path: Path) -> None:
    (val, val_labels), (test, test_labels) = sure(2000), sure(3000, seed=1)
    arrays = {"val_logits": val, "val_labels": val_labels, "test_logits": test, "test_labels": test_labels}
    np.savez(tmp_path / "a.npz", **arrays)
    (found,) = audit(tmp_path / "a.npz", risk=0.02)
    (threshold,) = found.thresholds
    assert (threshold.chosen_on, threshold.checked_on) == ("the calibration set", "the test set")
    assert threshold.chosen.n == 2000
    assert threshold.check is not None
    assert threshold.check.n == 3000
    assert threshold.holds


def test_a_check_that_contradicts_is_said(tmp_path: Path) -> None:
    (val, val_labels), (test, _) = sure(2000), sure(3000, seed=1)
    wrong = np.random.default_rng(0).integers(0, 3, 3000)
    arrays = {"val_logits": val, "val_labels": val_labels, "test_logits": test, "test_labels": wrong}
    np.savez(tmp_path / "a.npz", **arrays)
    (found,) = audit(tmp_path / "a.npz", risk=0.02, labels_are="from-0")
    (threshold,) = found.thresholds
    assert not threshold.holds
    assert "but on the test set: 6" in threshold.sentence()
    assert threshold.sentence().endswith("so these rows differ from those that it was chosen on")


def test_the_sentences() -> None:
    logits, labels = sure()
    report = sf.audit(logits=logits, labels=labels, risk="0.02,0.0005")
    good, none = report.audit.thresholds
    assert report.threshold is good
    assert good.sentence().startswith(
        f"above {good.threshold:.14g} the answer is wrong at most 2 % of the time (95 % confidence); this covers "
    )
    assert " % of the cases; on the other half: " in good.sentence()
    assert none.sentence() == (
        "at most 0.05 % wrong (95 % confidence) takes at least 5,990 answers without an error to show, but there are "
        f"{(halves(6000) == 0).sum():,} in one half of the rows"
    )
    assert none.threshold is None
    assert none.check is None
    hopeless = sf.audit(probs=softmax(logits), labels=np.roll(labels, 1), risk=0.02, labels_are="from-0").threshold
    assert hopeless.sentence().startswith(
        "no threshold can be shown to keep wrong answers to 2 % (95 % confidence): of the 299 surest answers "
    )
    with pytest.raises(InputError, match=r"Expected a risk that is allowed, but got none\. Say risk=0\.02\."):
        _ = sf.audit(logits=logits, labels=labels).threshold


@pytest.mark.parametrize("n", [1, 2, 20])
def test_few_rows(n: int) -> None:
    logits, labels = sure(n)
    found = sf.audit(logits=logits, labels=labels, risk=0.02, labels_are="from-0").threshold
    assert found.threshold is None
    assert f"149 answers without an error to show, but there are {(halves(n) == 0).sum()} in" in found.sentence()
    assert json.loads(json.dumps(found.to_json()))["threshold"] is None


def test_rounded_confidences_are_taken_as_they_are_written() -> None:
    """0.9 in a file is 0.9 above a threshold of 0.9, though a logarithm was taken of it and an exponential."""
    confidence = np.repeat([0.95, 0.9, 0.7], 2000)
    probs = np.stack([confidence, 1 - confidence], 1)
    labels = np.concatenate([np.zeros(4000, int), np.arange(2000) % 2])
    found = sf.audit(probs=probs, labels=labels, risk=0.02, labels_are="from-0").threshold
    assert found.threshold == 0.9


def test_groups_have_their_own_and_the_common_threshold(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = sure(4500)
    site = np.array(["a", "b", "c"] * 1500)
    labels = np.where((site == "b") & (np.arange(4500) % 7 == 0), (labels + 1) % 3, labels)  # mislabelled at one site
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, site=site)
    (found,) = audit(tmp_path / "a.npz", groups=["site"], risk=0.1)
    (threshold,) = found.thresholds
    assert [each.value for each in threshold.groups] == ["a", "b", "c"]
    probs = softmax(logits)
    confidence, right, half = probs.max(1), probs.argmax(1) == labels, halves(4500)
    for each in threshold.groups:
        rows = site == each.value
        own = risk_threshold(confidence[rows & (half == 0)], right[rows & (half == 0)], risk=0.1, level=1 - 0.05 / 3)
        assert (own.threshold is None) == (each.own.threshold is None) == (each.value == "b")
        assert each.own.level == pytest.approx(1 - 0.05 / 3)
        assert each.of_all is not None
        assert threshold.threshold is not None
        rows = rows & (half == 1)
        check = risk_above(threshold.threshold, confidence[rows], right[rows])
        assert (each.of_all.n, each.of_all.n_above, each.of_all.errors) == (check.n, check.n_above, check.errors)
    shown = run_command("audit", "a.npz", "--group", "site", "--risk", "0.1,0.001", "--no-page", cwd=tmp_path).stdout
    assert f"Above {threshold.threshold:.14g} the answer is wrong at most 10 % of the time (95 % confidence);" in shown
    assert "holds in all 3 groups at once with 95 % confidence (98.33 % each, which takes at least 39 answers" in shown
    assert "By site: no group has a threshold of its own for at most 0.1 % wrong either" in shown


def test_from_the_command_line_as_json(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = sure()
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    done = run_command("audit", "a.npz", "--risk", "0.02", "--no-page", "--json", cwd=tmp_path)
    (rule,) = json.loads(done.stdout)["audits"][0]["thresholds"]
    assert rule["rule"] == "confidence >= threshold"
    assert rule == json.loads(json.dumps(sf.audit(tmp_path / "a.npz", risk=0.02).threshold.to_json()))
    both = compare_audits(tmp_path / "a.npz", tmp_path / "a.npz", risk=0.02)
    assert both.a.thresholds == both.b.thresholds
    done = run_command("audit", "a.npz", "--risk", "2", "--no-page", cwd=tmp_path)
    assert done.returncode != 0
    assert "Expected a risk between 0 and 1, such as 0.02 for 2 %" in done.stderr


@pytest.mark.parametrize("risk", ["2", "zero", "0.02,", "-0.1", "", [], [0.1, 1.0], 0])
def test_risks_as_people_write_them(risk: object) -> None:
    assert risks_of("0.01,0.05") == risks_of([0.01, 0.05]) == (0.01, 0.05)
    with pytest.raises(InputError, match=r"for 2 %, or several as 0\.01,0\.05, but got .*\. Say the share of wrong"):
        risks_of(risk)  # type: ignore[arg-type]


def test_several_labels_per_row_are_refused(tmp_path: Path) -> None:
    probs = np.random.default_rng(0).random((50, 3))
    np.savez(tmp_path / "a.npz", probs=probs, labels=(probs > 0.5).astype(int))
    with pytest.raises(InputError, match=r"Expected one answer per row with --risk, but a\.npz has several labels"):
        sf.audit(tmp_path / "a.npz", risk=0.1)


def counted(weights: np.ndarray | None, pieces: int, *, are_counts: bool = False) -> ConfidenceCounts:
    """Count rows, a fifth of them wrong, whose weights grow from piece to piece."""
    rng = np.random.default_rng(5)
    confidence, correct = torch.from_numpy(rng.random(4000)), torch.from_numpy(rng.random(4000) < 0.8)
    counts = ConfidenceCounts(are_counts=are_counts)
    for rows in np.array_split(np.arange(4000), pieces):
        some = None if weights is None else weights[rows]
        group = {"site": np.where(rows % 2 == 0, "even", "odd")}
        counts.add(confidence[rows], correct[rows], rows % 2, rows, group, some)
    return counts


def test_pieces_do_not_matter() -> None:
    assert (counted(None, 1).total.counts == counted(None, 9).total.counts).all()
    groups = counted(None, 3).groups["site"]
    assert (groups["even"].counts + groups["odd"].counts == counted(None, 1).total.counts).all()


def test_weights_that_are_counts_are_repeated_rows() -> None:
    twice = counted(np.full(4000, 2), 3, are_counts=True)
    assert (twice.total.counts == 2 * counted(None, 1).total.counts).all()
    assert not twice.weighted
    with pytest.raises(InputError, match=r"Expected whole numbers as weights that are counts, but got 0\.5\."):
        counted(np.full(4000, 0.5), 1, are_counts=True)


def test_weights_keep_rows_in_proportion() -> None:
    """Also those that were counted before a heavier row came."""
    weights = np.linspace(0.1, 1.0, 4000)
    cells = counted(weights, 7).total
    count, errors, rows = cells.of(0, 1)
    assert rows == 4000
    assert count.sum() == pytest.approx(weights.sum() / weights.max(), abs=4 * np.sqrt(4000 / 4))
    assert errors.sum() / count.sum() == pytest.approx(0.2, abs=0.04)
    first, last = Cells("first"), Cells("last")
    same = np.zeros(3000, np.int64)
    first.add(same, same == 1, same, np.arange(3000), np.full(3000, 1.0), counts=False)
    first.add(same + 1, same == 1, same, np.arange(3000, 6000), np.full(3000, 4.0), counts=False)
    assert first.of(0)[0].sum() == pytest.approx(3000 + 750, abs=100)
    last.add(same, same == 1, same, np.arange(3000), np.zeros(3000), counts=False)
    assert last.of(0)[0].sum() == 0
    (found,) = find_thresholds(counted(weights, 7), None, [0.5], 0.95)
    assert found.weighted
    assert found.chosen.n < found.chosen.rows == 2000
