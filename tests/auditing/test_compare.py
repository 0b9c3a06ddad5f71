"""Two files beside each other: a winner only where there is one, and no line that says otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.auditing import audit, compare_audits
from surefoot.auditing.better import Better, PairedRows, better_calibrated
from surefoot.metrics import Stream
from surefoot.metrics.verdict import verdict_of_sums
from tests.auditing.made import made
from tests.conftest import RunCommand


def two(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits of two calibrated models, 95 % and 59 % right, and labels: one sees less of each example.

    Where x is a · e_y plus noise, softmax(a · x) is the probability of each class.
    """
    labels = rng.integers(10, size=n)
    hot = np.eye(10)[labels]
    less, rest = 1.9, np.sqrt(3.6**2 - 1.9**2)
    seen, unseen = less * hot + rng.standard_normal((n, 10)), rest * hot + rng.standard_normal((n, 10))
    return less * seen + rest * unseen, less * seen, labels


def found_better(a: np.ndarray, b: np.ndarray, labels: np.ndarray) -> Better | None:
    """Do what the comparison of files does, without files."""
    probs, truth = tuple(torch.from_numpy(each).softmax(1) for each in (a, b)), torch.from_numpy(labels)
    streams = [Stream("ece") for _ in probs]
    for each, stream in zip(probs, streams, strict=True):
        stream.update(each, truth)
    verdicts = [verdict_of_sums(stream.sums) for stream in streams]
    return better_calibrated(*verdicts, tuple(stream.sums for stream in streams), PairedRows(probs, truth), 1.0)


@pytest.mark.parametrize("seed", [3, 6, 8])
def test_the_headline_says_nothing_that_the_lines_below_it_deny(seed: int, tmp_path: Path) -> None:
    """Draws on which errors of few examples alone make the more accurate model look better calibrated."""
    a, b, labels = two(300, np.random.default_rng(seed))
    np.savez(tmp_path / "a.npz", logits=a, labels=labels)
    np.savez(tmp_path / "b.npz", logits=b, labels=labels)
    both = compare_audits(tmp_path / "a.npz", tmp_path / "b.npz")
    assert both.a.verdict.finding == both.b.verdict.finding == "calibrated"
    assert both.sentence().startswith(
        "A and B cannot be told apart by calibration: both are calibrated as far as 300 examples can tell; "
    )
    assert both.to_json()["better"] is None
    for difference in both.differences.values():
        assert difference.low <= difference.estimate <= difference.high
    assert 0.0 in both.differences["ece"]
    assert 0.0 in both.differences["confidence_gap"]
    assert both.differences["accuracy"].low > 0


def test_no_winner_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    called = sum(found_better(*two(300, rng)) is not None for _ in range(200))
    assert called <= 10  # 5 %


@pytest.mark.parametrize("sharpen", [1.7, 0.5])
def test_a_fault_is_found_beside_a_calibrated_model(sharpen: float) -> None:
    rng, letters = np.random.default_rng(1), []
    for _ in range(40):
        a, b, labels = two(1000, rng)
        letters.append((found_better(a, sharpen * b, labels) or Better("B", "ece")).letter)
    assert letters.count("A") >= 36


def test_a_file_with_few_errors_gets_words_instead_of_an_interval(tmp_path: Path, run_command: RunCommand) -> None:
    probs = np.tile([0.995, 0.003, 0.002], (200, 1))
    labels = (np.arange(200) == 7).astype(int)
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    (found,) = audit(tmp_path / "a.npz")
    assert found.verdict.finding == "calibrated"
    assert found.measures["nll"].note == "too few errors (1 of 200) for an interval"
    assert found.to_json()["measures"]["nll"]["low"] is None
    done = run_command("audit", "a.npz")
    words = " ".join(done.stdout.split())
    assert "Note: NLL, Brier score and AUROC of confidence: too few errors (1 of 200) for an interval." in words
    assert "too few errors (1 of 200) for an interval" in (tmp_path / "a-audit.html").read_text(encoding="utf-8")


def test_an_audit_of_calibrated_predictions_contradicts_itself_nowhere(tmp_path: Path) -> None:
    calibrated = 0
    for seed in range(3):
        logits, labels = made(500, seed=seed)
        np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
        (found,) = audit(tmp_path / "a.npz")
        calibrated += found.verdict.finding == "calibrated"
        for name, interval in found.measures.items():
            assert interval.low <= interval.estimate <= interval.high, name
        assert (found.measures["ece"].low == 0) or found.verdict.consistency.miscalibrated
        assert not found.measures["smooth_ece"].known
        assert not found.measures["classwise_ece"].known
        for name in ("ece", "smooth_ece", "classwise_ece"):
            assert 0 < found.chance[name].expected < found.chance[name].limit < 0.2, name
        assert found.chance["ece"].limit == found.verdict.consistency.limit
    assert calibrated >= 2  # one in twenty is found fault with by chance
