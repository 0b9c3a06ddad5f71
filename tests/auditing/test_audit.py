"""The verdict in words and numbers, for every finding; splits, models, slices, samples and comparisons."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.auditing import _walking, audit, compare_audits
from surefoot.errors import InputError
from surefoot.registry import METRICS
from tests.auditing.made import made, softmax, write
from tests.conftest import RunCommand

PREDICTIONS = Path(__file__).parents[3] / "shared" / "data" / "predictions"


def mixed(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Surely too sure in one half, surely not sure enough in the other, so that the means agree."""
    confidence = np.where(np.arange(n) % 2 == 0, 0.95, 0.6)
    right = np.arange(n) // 2 % 100 < np.where(np.arange(n) % 2 == 0, 80, 75)
    return np.stack([confidence, 1 - confidence], 1), (~right).astype(int)


@pytest.mark.parametrize(
    ("temperature", "says"),
    [
        (0.5, r"^over-confident by \d+\.\d points, 95 % interval [\d.]+–[\d.]+; temperature (1\.9|2\.0)\d brings ECE"
         r" to \d\.\d %; worst class: (shirt|coat|bag)$"),
        (2.0, r"^under-confident by \d+\.\d points, 95 % interval [\d.]+–[\d.]+; temperature 0\.(4|5)\d brings ECE to"
         r" \d\.\d %; worst class: (shirt|coat|bag)$"),
        (1.0, r"^calibrated as far as 4,000 examples can tell: ECE \d\.\d %, and chance alone would give up to \d\.\d"
         r" %; nothing to repair$"),
    ],
)  # fmt: skip
def test_the_sentence(temperature: float, says: str, tmp_path: Path) -> None:
    (found,) = audit(write(tmp_path / "a.npz", *made(temperature=temperature)))
    assert re.search(says, found.sentence()), found.sentence()


def test_the_sentence_for_both_at_once(tmp_path: Path) -> None:
    probs, labels = mixed()
    np.savez(tmp_path / "a.npz", probs=probs, labels=labels)
    (found,) = audit(tmp_path / "a.npz")
    assert found.verdict.finding == "mixed"
    sentence = found.sentence()
    assert sentence.startswith(
        "risk is too high in some places and too low in others: ECE of P(class 1) 15.0 %, where "
    )
    assert " bring the mean to 22.5 % and ECE from 15.0 % to " in sentence
    assert ", a temperature does not (mean " in sentence


def test_numbers_are_those_of_the_metrics(tmp_path: Path) -> None:
    logits, labels = made(3000, temperature=0.6)
    (found,) = audit(write(tmp_path / "a.npz", logits, labels), n_bins=15)
    probs, truth = torch.from_numpy(softmax(logits)), torch.from_numpy(labels)
    for name, interval in found.measures.items():
        assert interval.estimate == pytest.approx(METRICS[name].build(probs, truth).item(), abs=1e-6), name
        assert interval.low <= interval.estimate <= interval.high
        assert interval.known or interval.note
    assert {"nll", "brier", "classwise_ece", "smooth_ece", "aurc", "kce"} <= set(found.measures)
    assert found.risk_coverage[-1] == pytest.approx((1.0, 1 - found.verdict.accuracy.estimate))


def test_a_temperature_is_scored_on_rows_it_was_not_fitted_on(tmp_path: Path) -> None:
    logits, labels = made(1000, temperature=0.5)
    other, truth = made(1000, temperature=2.0, seed=1)
    np.savez(tmp_path / "a.npz", val_logits=other, val_labels=truth, test_logits=logits, test_labels=labels)
    (found,) = audit(tmp_path / "a.npz")
    assert (found.n, found.split) == (1000, "test")
    assert found.repair is not None
    assert found.repair.temperature == pytest.approx(0.5, abs=0.1)  # what the other set needs, which is wrong here
    assert found.repair.ece.estimate > found.verdict.ece.estimate
    assert "one temperature does not help" in found.sentence()


def test_probabilities_and_their_logits_give_the_same_audit(tmp_path: Path) -> None:
    logits, labels = made(1000, temperature=0.7)
    np.savez(tmp_path / "a.npz", logits=logits.astype(float), labels=labels)
    np.savez(tmp_path / "b.npz", probs=softmax(logits), labels=labels)
    a, b = (audit(tmp_path / f"{name}.npz")[0] for name in "ab")
    assert a.repair.temperature == pytest.approx(b.repair.temperature, abs=1e-6)
    assert {k: v.estimate for k, v in a.measures.items()} == pytest.approx(
        {k: v.estimate for k, v in b.measures.items()}, abs=1e-9
    )


def test_a_sample_is_random_also_where_the_file_is_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walking, "MOST_RANKED", 2000)
    logits, labels = made(20_000, temperature=0.5)
    order = softmax(logits).max(1).argsort()
    np.savez(tmp_path / "a.npz", logits=logits[order], labels=labels[order])
    (found,) = audit(tmp_path / "a.npz")
    assert found.sampled == 2000
    assert "2,000 rows drawn at random" in found.notes[-1]
    whole = METRICS["smooth_ece"].build(torch.from_numpy(softmax(logits)), torch.from_numpy(labels)).item()
    assert found.measures["smooth_ece"].estimate == pytest.approx(whole, abs=0.03)
    assert found.repair.temperature == pytest.approx(2.0, abs=0.2)
    assert found.repair.ece.estimate < 0.02


def test_slices_find_the_bad_site(tmp_path: Path, run_command: RunCommand) -> None:
    good, labels = made(2000)
    bad, others = made(2000, temperature=0.4, seed=1)
    sites = ["north"] * 2000 + ["south"] * 2000
    for suffix in ("npz", "csv"):
        write(tmp_path / f"a.{suffix}", np.concatenate([good, bad]), np.concatenate([labels, others]), sites=sites)
        (found,) = audit(tmp_path / f"a.{suffix}", groups=["site"])
        assert [(each.value, each.verdict.finding) for each in found.slices] == [
            ("south", "over-confident"),
            ("north", "calibrated"),
        ]
    done = run_command("audit", "a.csv", "--group", "site")
    assert "site = south" in done.stdout
    assert '<th scope="row">north</th>' in (tmp_path / "a-audit.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"Expected an array 'sight', but a\.npz holds"):
        audit(tmp_path / "a.npz", groups=["sight"])
    assert (
        "Slices: of 2 slices looked at, 1 is off after Holm's correction: site = south (over-confident by"
        in done.stdout
    )


def test_several_models_in_one_file(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(1000)
    np.savez(tmp_path / "two.npz", resnet_logits=logits, vgg_logits=logits * 3, labels=labels)
    done = run_command("audit", "two.npz")
    assert "resnet: calibrated" in done.stdout
    assert "vgg: over-confident" in done.stdout
    assert "Next: surefoot calibrate HELD-OUT.npz --model vgg, on rows of the same model that are not" in done.stdout
    one = json.loads(run_command("audit", "two.npz", "--model", "vgg", "--json", "--no-page").stdout)
    assert [each["model"] for each in one["audits"]] == ["vgg"]
    assert one["page"] is None
    missing = run_command("audit", "two.npz", "--model", "vit")
    assert missing.returncode == 2
    assert "It holds resnet, vgg." in missing.stderr


def test_two_files_are_compared_example_by_example(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(1000)
    write(tmp_path / "a.npz", logits, labels)
    write(tmp_path / "b.csv", logits * 3, labels)
    found = compare_audits(tmp_path / "a.npz", tmp_path / "b.csv")
    gap = found.differences["ece"]
    assert gap.estimate == pytest.approx(found.a.verdict.ece.estimate - found.b.verdict.ece.estimate)
    assert gap.high < 0
    assert 0.0 in found.differences["accuracy"]
    done = run_command("audit", "a.npz", "b.csv")
    says = r"A is better calibrated: its confidence is off by 0\.\d points, B's by 1\d\.\d; by NLL A is better\.\nA: "
    assert re.match(says, done.stdout)
    assert "A − B" in done.stdout
    assert (tmp_path / "a-b-audit.html").exists()
    same = compare_audits(tmp_path / "a.npz", tmp_path / "a.npz")
    assert same.sentence() == (
        "A and B cannot be told apart by calibration: both are calibrated as far as 1,000 examples can tell; their NLL "
        "cannot be told apart"
    )
    write(tmp_path / "c.npz", logits, labels[::-1].copy())
    with pytest.raises(InputError, match="have other labels"):
        compare_audits(tmp_path / "a.npz", tmp_path / "c.npz")
    write(tmp_path / "d.npz", logits[:99], labels[:99])
    with pytest.raises(InputError, match=r"a.npz has 1000 rows of 3 classes and d.npz 99 of 3"):
        compare_audits(tmp_path / "a.npz", tmp_path / "d.npz")


def test_real_predictions() -> None:
    if not PREDICTIONS.is_dir():
        pytest.skip(f"no {PREDICTIONS.name} beside the project")
    (lenet,) = audit(PREDICTIONS / "lenet5-cifar10.npz")
    assert "'predictions' as scores, 'ground_truth' as labels (probs, by their values)" in lenet.took
    assert lenet.verdict.ece.estimate == pytest.approx(0.1079, abs=1e-4)
    assert lenet.sentence().startswith("over-confident by 10.8 points, 95 % interval ")
    told = re.search(r"temperature 1\.40 brings ECE to (\d\.\d) %", lenet.sentence())
    assert told
    assert float(told[1]) == pytest.approx(1.27, abs=0.2)  # 1.27 where T = 1.40 for all; here fitted on drawn halves
    (resnet,) = audit(PREDICTIONS / "resnet50-cifar10.npz")
    assert (resnet.n, resnet.split) == (10_000, "test")
    assert "val_logits" in resnet.took
    assert resnet.sentence().startswith("over-confident by 1.4 points")
