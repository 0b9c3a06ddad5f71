"""Rows without labels: estimates that hold under label shift, and a refusal where there is more to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import surefoot as sf
from surefoot.auditing import estimate
from surefoot.auditing._label_shift import Cells, ScoredRows, class_shares, drawn
from surefoot.auditing._shifted import ReferenceRows, shifted
from surefoot.errors import InputError, ShiftError
from surefoot.seeding import generator
from tests.auditing.made import softmax
from tests.conftest import RunCommand

Rows = tuple[np.ndarray, np.ndarray]


def rows(n: int, shares: list[float], seed: int, *, noise: float = 1.0) -> Rows:
    """Logits and labels of a model that sees the class through noise: calibrated where classes are as frequent."""
    rng, k = np.random.default_rng(seed), len(shares)
    labels = rng.choice(k, n, p=shares)
    return 2 * (2 * np.eye(k)[labels] + noise * rng.normal(size=(n, k))), labels


def test_shares_are_those_of_slow_expectation_maximisation() -> None:
    rng = np.random.default_rng(0)
    joint, new = rng.integers(1, 40, (3, 6, 4)).astype(float), rng.integers(1, 90, (3, 6)).astype(float)
    joint += 200 * np.eye(6, 4)
    found = class_shares(torch.from_numpy(joint), torch.from_numpy(new)).numpy()
    for number in range(3):
        prior = joint[number].sum(0) / joint[number].sum()
        shares = prior.copy()
        for _ in range(1000):
            total = np.zeros(4)
            for cell in range(6):
                posterior = joint[number, cell] / joint[number, cell].sum() * shares / prior
                total += new[number, cell] * posterior / posterior.sum()
            shares = total / total.sum()
        assert found[number] == pytest.approx(shares, abs=1e-4)


def test_a_cell_without_labelled_rows_and_a_class_without_any_say_nothing() -> None:
    joint = torch.tensor([[[80.0, 20.0, 0.0], [20.0, 80.0, 0.0], [0.0, 0.0, 0.0]]])
    found = class_shares(joint, torch.tensor([[75.0, 25.0, 1000.0]]))
    assert found[0].tolist() == pytest.approx([0.9167, 0.0833, 0.0], abs=1e-3)


def test_draws_have_the_chances_that_were_asked_for() -> None:
    counts = drawn(torch.tensor([1.0, 3.0, 0.0]), 1000, 50, generator(0, "test"))
    assert counts.sum(1).tolist() == [1000.0] * 50
    assert counts.mean(0).tolist() == pytest.approx([250, 750, 0], abs=10)


def test_measures_are_the_references_at_other_frequencies() -> None:
    """Against weights written out row by row."""
    (reference, labels), (new, _) = rows(900, [0.5, 0.3, 0.2], 1), rows(700, [0.2, 0.3, 0.5], 2)
    probs, others = (torch.from_numpy(softmax(each)) for each in (reference, new))
    found = shifted(
        ReferenceRows.of(probs, torch.from_numpy(labels), None),
        ScoredRows.of(others, None),
        3,
        n_bins=15,
        level=0.95,
        source=generator(0, "test"),
    )
    shares = [each.estimate for each in found.shares]
    assert sum(shares) == pytest.approx(1)
    weights = np.array([shares[y] / (labels == y).mean() for y in labels])
    right = probs.argmax(1).numpy() == labels
    nll = -np.log(probs.numpy()[np.arange(900), labels])
    assert found.accuracy.estimate == pytest.approx(np.average(right, weights=weights))
    assert found.nll.estimate == pytest.approx(np.average(nll, weights=weights))
    confidence, ece = probs.amax(1).numpy(), 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15 + 1e-12)
        ece += abs((weights * (confidence - right))[inside].sum()) / weights.sum()
    assert found.ece.estimate == pytest.approx(ece)
    assert 100 < found.worth < 900


def test_cells_are_fewer_where_rows_are() -> None:
    sizes = []
    for n in (150, 900, 5000):
        (logits, labels), (new, _) = rows(n, [0.4, 0.3, 0.3], 1), rows(100, [0.2, 0.3, 0.5], 2)
        both = [ScoredRows.of(torch.from_numpy(softmax(each)), None) for each in (logits, new)]
        sizes.append(Cells.of(both[0], torch.from_numpy(labels), both[1], 3).n_cells)
    assert sizes == [3, 9, 15]


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.85, 0.15]])
def test_intervals_hold_under_label_shift_and_the_reference_is_seldom_refused(shares: list[float]) -> None:
    big, labels = rows(200_000, shares, 999)
    accuracy = (big.argmax(1) == labels).mean()
    held = refused = 0
    for seed in range(20):
        reference, new = rows(400, [0.5, 0.5], 2 * seed), rows(400, shares, 2 * seed + 1)
        try:
            found = estimate({"logits": new[0]}, {"logits": reference[0], "labels": reference[1]})
        except ShiftError:
            refused += 1
            continue
        held += (accuracy in found.measures["accuracy"]) and (shares[1] in found.measures["event_rate"])
    assert refused <= 3
    assert held >= 20 - refused - 3


def test_other_shifts_are_refused() -> None:
    refused = 0
    for seed in range(10):
        reference, new = rows(600, [0.5, 0.5], 2 * seed), rows(600, [0.7, 0.3], 2 * seed + 1, noise=1.7)
        try:
            estimate({"logits": new[0]}, {"logits": reference[0], "labels": reference[1]})
        except ShiftError as error:
            refused += 1
            text = str(error)
    assert refused >= 9
    assert text.startswith("Expected scores that other class frequencies explain, but those of the new rows are ")
    assert text.endswith("says nothing about it. Label some of the new rows and audit them.")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (reference, labels), (new, _) = rows(500, [0.5, 0.5], 3), rows(300, [0.8, 0.2], 4)
    names = np.array(["healthy", "sick"])
    np.savez(tmp_path / "labelled.npz", probs=softmax(reference), labels=labels, class_names=names)
    lines = "".join(f"{p:.9g},{q:.9g}\n" for p, q in softmax(new))
    (tmp_path / "new.csv").write_text("prob_healthy,prob_sick\n" + lines)
    np.savez(tmp_path / "new.npz", probs=softmax(new))
    np.save(tmp_path / "new.npy", softmax(new))
    (tmp_path / "odd.csv").write_text("prob_healthy,prob_sick\n" + "0.5,0.5\n" * 200)
    return tmp_path


def test_every_way_in_leads_to_the_same_numbers(files: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame, probs = pandas.read_csv(files / "new.csv"), np.load(files / "new.npy")
    ways = [
        files / "new.csv",
        files / "new.npz",
        files / "new.npy",
        frame,
        {"probs": probs},
        probs,
        torch.tensor(probs),
    ]
    found = [sf.estimate(way, reference=files / "labelled.npz").measures for way in [*ways, probs.tolist()]]
    rates = [each["event_rate"].estimate for each in found]
    assert rates == pytest.approx([rates[0]] * len(rates), abs=1e-6)
    assert found[0]["mean_risk"].estimate == pytest.approx(probs[:, 1].mean(), abs=1e-6)
    with np.load(files / "labelled.npz") as arrays:
        held = {name: arrays[name] for name in ("probs", "labels")}
    again = sf.estimate(probs[:, 1], reference=held).measures  # one column: P(class 1)
    assert again["event_rate"].estimate == pytest.approx(rates[0], abs=1e-6)


def test_the_command(files: Path, run_command: RunCommand) -> None:
    done = run_command("estimate", "new.csv", "--reference", "labelled.npz", cwd=files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("about ")
    for text in (
        "of the 300 new rows are sick",
        "event rate",
        "ECE of P(sick)",
        "if only class frequencies have changed",
    ):
        assert text in done.stdout
    found = json.loads(run_command("estimate", "new.csv", "--reference", "labelled.npz", "--json", cwd=files).stdout)
    assert found["measures"]["event_rate"]["low"] < 0.2 < found["measures"]["event_rate"]["high"]
    assert [each["name"] for each in found["shares"]] == ["healthy", "sick"]
    refused = run_command("estimate", "odd.csv", "--reference", "labelled.npz", cwd=files)
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: Expected scores that other class frequencies explain, but those of odd")
    labelled = run_command("estimate", "labelled.npz", "--reference", "labelled.npz", cwd=files)
    assert "The new rows have labels, which were not looked at; audit them instead." in labelled.stdout


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (np.full((5, 2), 0.5), r"Expected at least 30 rows, but the new rows has 5\."),
        (np.full((50, 3), 1 / 3), r"Expected scores of 2 classes, as the reference has, but the new rows has 3"),
        (np.full((50, 2), np.nan), r"Expected probabilities that are not negative and sum to 1, but row 0 has nan"),
        (np.empty((0, 2)), r"Expected at least one row, but the new rows has none"),
        ({"other": np.ones(50)}, r"Expected the scores of the reference, such as probs, but arrays has other"),
        ("no.csv", r"Expected a file of predictions, but no\.csv does not exist"),
        (Path(__file__).parent, r"Expected (one file of scores|files of predictions), but"),
        (Path(__file__), r"Expected a file in .*, but got 'test_estimate\.py'"),
    ],
)
def test_new_rows_that_cannot_be_used_are_refused(new: object, text: str, files: Path) -> None:
    with pytest.raises(InputError, match=text):
        sf.estimate(new, reference=files / "labelled.npz")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "none.jsonl",
            b'{"probs": []}\n',
            r"Expected scores \(n, classes\), but got float64 \(1, 0\) in none\.jsonl",
        ),
        ("deep.npz", {"probs": np.zeros((1, 0, 4))}, r"Expected scores \(n, classes\), but got float64 \(1, 0, 4\)"),
    ],
)
def test_files_without_a_single_score_are_refused(name: str, content: Any, text: str, files: Path) -> None:
    np.savez(files / name, **content) if isinstance(content, dict) else (files / name).write_bytes(content)
    with pytest.raises(InputError, match=text):
        sf.estimate(files / name, reference=files / "labelled.npz")


def test_references_that_cannot_be_used_are_refused(files: Path) -> None:
    new = np.load(files / "new.npy")
    with pytest.raises(InputError, match=r"Expected a labelled reference, but got none\. Say --reference"):
        sf.estimate(new)
    with pytest.raises(InputError, match=r"Expected at least 30 rows, but arrays has 4"):
        sf.estimate(new, reference={"probs": new[:4], "labels": [0, 1, 0, 1]})
    with pytest.raises(InputError, match=r"Expected labels of several classes, but arrays has one class only"):
        sf.estimate(new, reference={"probs": new[:50], "labels": [0] * 50}, labels_are="from-0")
    with pytest.raises(InputError, match=r"Expected a level between 0 and 1"):
        sf.estimate(new, reference=files / "labelled.npz", level=1.0)


def test_a_class_that_the_reference_lacks_is_said() -> None:
    (reference, labels), (new, _) = rows(400, [0.5, 0.5, 0.0], 5), rows(300, [0.6, 0.4, 0.0], 6)
    found = estimate({"logits": new}, {"logits": reference, "labels": labels})
    assert found.shares[2].new.estimate == 0
    assert any("The reference has no row of class 2" in note for note in found.notes)
