"""The gate: broken by what noise does not explain, by nothing else, and the same from a saved baseline."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import surefoot as sf
from surefoot.auditing import check, load_baseline
from surefoot.auditing.baseline import _checksum
from surefoot.auditing.checked import Check, Gate
from surefoot.errors import InputError
from surefoot.metrics.bootstrap import bootstrap, paired_bootstrap
from surefoot.schema import Predictions
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand


def of(logits: np.ndarray, labels: np.ndarray) -> Predictions:
    return Predictions(logits, labels, "test")


def only(gate: Gate, metric: str) -> Check:
    (found,) = [each for each in gate.checks if each.metric == metric]
    return found


@pytest.mark.parametrize(
    ("hits", "limit", "status"), [(80, 0.9, "broken"), (80, 0.5, "passed"), (80, 0.85, "undecided")]
)
def test_a_limit_is_broken_only_where_the_whole_interval_is_on_the_wrong_side(
    hits: int, limit: float, status: str
) -> None:
    probs = np.tile([0.8, 0.1, 0.1], (100, 1))
    labels = (np.arange(100) >= hits).astype(int)
    (found,) = check({"probs": probs, "labels": labels}, [("min", "accuracy", limit)]).checks
    low, high = stats.beta.ppf(0.025, hits, 101 - hits), stats.beta.ppf(0.975, hits + 1, 100 - hits)
    assert (found.value.low, found.value.high) == pytest.approx((low, high))
    assert found.status == status == ("broken" if high < limit else "passed" if low >= limit else "undecided")


def test_undecided_says_how_many_rows_would_tell() -> None:
    probs, labels = np.tile([0.8, 0.1, 0.1], (100, 1)), (np.arange(100) >= 80).astype(int)
    (found,) = check({"probs": probs, "labels": labels}, [("min", "accuracy", 0.85)]).checks
    reach = found.value.high - 0.8
    assert found.rows == math.ceil(100 * (reach / 0.05) ** 2 / 10) * 10
    many = {"probs": np.tile(probs, (4, 1)), "labels": np.tile(labels, 4)}
    assert check(many, [("min", "accuracy", 0.85)]).broken == (found.rows <= 400)


def test_several_checks_share_the_error() -> None:
    logits, labels = made(500)
    limits = [("max", "ece", 0.05), ("max", "nll", 0.9), ("min", "accuracy", 0.6), ("max", "gap", 0.1)]
    gate = check(of(logits, labels), limits)
    assert gate.each_level == pytest.approx(1 - 0.05 / 4)
    assert {each.value.level for each in gate.checks} == {gate.each_level}
    probs = torch.from_numpy(softmax(logits))
    alone = bootstrap("nll", probs, torch.from_numpy(labels), level=gate.each_level)
    found = only(gate, "nll").value
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), rel=1e-6)


@pytest.mark.parametrize("name", ["accuracy", "nll", "brier"])
def test_a_baseline_of_the_same_examples_is_compared_row_by_row(name: str) -> None:
    logits, labels = made(800)
    new = (1.5 * logits + np.random.default_rng(1).normal(size=logits.shape)).astype(np.float32)
    gate = check(of(new, labels), baseline=check(of(logits, labels)).kept, compare=[name])
    assert gate.paired
    a, b = (torch.from_numpy(softmax(each)) for each in (new, logits))
    want = paired_bootstrap(name, a, b, torch.from_numpy(labels))
    found = only(gate, name).change
    assert found is not None
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (want.estimate, want.low, want.high), abs=2e-4
    )  # rows are kept in half precision


def test_a_baseline_of_other_examples_is_compared_as_two_samples() -> None:
    a, b = (of(*made(n, seed=seed)) for n, seed in ((500, 1), (900, 2)))
    gate = check(a, baseline=check(b).kept, compare=["accuracy", "nll"])
    assert gate.paired is False
    assert gate.baseline_n == 900
    for each in gate.checks:
        assert each.was is not None
        assert each.change is not None
        down = math.sqrt((each.value.estimate - each.value.low) ** 2 + (each.was.high - each.was.estimate) ** 2)
        assert each.change.estimate == pytest.approx(each.value.estimate - each.was.estimate)
        assert each.change.low == pytest.approx(each.change.estimate - down)


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_same_predictions_are_never_worse(n: int, classes: int, tmp_path: Path) -> None:
    logits, labels = made(n, classes)
    first = sf.check(logits=logits, labels=labels)
    gate = sf.check(logits=logits, labels=labels, baseline=first.save_baseline(tmp_path / "main.json")).gate
    assert gate.paired
    assert not gate.broken
    assert only(gate, "nll").change.estimate == 0  # type: ignore[union-attr]


def test_equally_good_models_break_the_gate_seldom_and_worse_ones_often() -> None:
    rng, broken = np.random.default_rng(0), {"equal": 0, "worse": 0}
    for _ in range(30):
        labels = rng.integers(3, size=200)
        seen = 1.5 * np.eye(3)[labels] + 0.5 * rng.normal(size=(200, 3))
        a, b = (1.5 * (seen + 0.86 * rng.normal(size=(200, 3))) for _ in range(2))
        base = check(of(a, labels)).kept
        broken["equal"] += check(of(b, labels), baseline=base).broken
        broken["worse"] += check(of(8 * b, labels), baseline=base).broken
    assert broken["equal"] <= 4  # 5 % of 30, and what chance adds to it
    assert broken["worse"] >= 27


def test_a_saved_baseline_is_read_back_as_it_was(tmp_path: Path) -> None:
    logits, labels = made(300, 2)
    first = check({"logits": logits, "labels": labels}, [("min", "top_k_accuracy:k=1", 0.1)])
    first.save_baseline(tmp_path / "main.json")
    new = of(1.3 * logits, labels)
    by_file, by_memory = (check(new, baseline=each) for each in (tmp_path / "main.json", first.kept))
    assert by_file.checks == by_memory.checks
    assert "top_k_accuracy:k=1" in load_baseline(tmp_path / "main.json").summary.values


def test_a_baseline_stays_small(tmp_path: Path) -> None:
    logits, labels = made(30_000)
    check(of(logits, labels)).save_baseline(tmp_path / "main.json")
    assert (tmp_path / "main.json").stat().st_size < 250_000
    gate = check(of(logits, labels), baseline=tmp_path / "main.json")
    assert gate.paired
    assert not gate.broken


def test_two_classes_are_held_to_the_calibration_of_the_risk() -> None:
    logits, labels = made(2000, 2, temperature=0.5)
    report = sf.check(logits=logits, labels=labels, class_names=["healthy", "sick"], max_ece=0.02, max_gap=0.05)
    metrics = [each.metric for each in report.gate.checks]
    assert metrics == ["risk_ece", "risk_gap"]
    wanted = sf.audit(logits=logits, labels=labels, class_names=["healthy", "sick"], level=0.975).measures
    assert report.gate.checks[0].value.estimate == pytest.approx(wanted["risk_ece"].estimate)
    assert report.gate.checks[1].value.estimate == pytest.approx(abs(wanted["risk_gap"].estimate))
    assert report.broken
    assert "ECE of the risk P(sick) is" in report.sentence()
    assert "Two classes: calibration is that of the risk, P(sick)." in str(report)
    auroc = sf.check(logits=logits, labels=labels, min={"risk_auroc": 0.5})
    assert auroc.gate.checks[0].status == "passed"


def test_a_gap_is_checked_by_its_size() -> None:
    logits, labels = made(4000, temperature=2.0)  # under-confident: the gap is below 0
    gate = check(of(logits, labels), [("max", "gap", 0.02)])
    assert gate.broken
    assert gate.checks[0].value.low > 0.02
    other = check(of(*made(4000)), baseline=gate.kept, compare=["gap"])
    assert other.checks[0].status == "passed"


def test_a_probability_of_zero_on_the_true_class_breaks_any_limit() -> None:
    probs, labels = np.tile([1.0, 0.0, 0.0], (50, 1)), np.zeros(50, int)
    fine = check({"probs": np.tile([0.9, 0.05, 0.05], (50, 1)), "labels": labels}, [("max", "nll", 0.5)])
    assert [each.status for each in fine.checks] == ["undecided"]
    assert fine.checks[0].note == "too few errors (0 of 50) for an interval"
    labels[7] = 1
    bad = sf.check(probs=probs, labels=labels, max_nll=0.5)
    assert bad.broken
    assert "NLL is ∞, above 0.500" in bad.sentence()
    again = check({"probs": np.tile([0.9, 0.05, 0.05], (50, 1)), "labels": labels}, baseline=bad.gate.kept)
    assert only(again, "nll").status == "passed"
    assert only(check({"probs": probs, "labels": labels}, baseline=again.kept), "nll").status == "broken"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_ece": 5}, r"Expected --max ece from 0 to 1, but got 5\. Write 0\.05 for 5 %\."),
        ({"max": "smooth_ece=0.1"}, r"no interval of smooth_ece is known to cover: noise could break the gate"),
        ({"max": "nll"}, r"Expected --max NAME=VALUE, but got 'nll'\. Write --max nll=0\.5\."),
        ({"max": {"ece:n_bins=30": 0.1}}, r"Expected ece without options, but got 'ece:n_bins=30'\. Say --bins 30\."),
        ({"min": "risk_auroc=0.9"}, r"Expected two classes with risk_auroc, but .* has more"),
        ({"compare": "nll"}, r"Expected --baseline with --compare, but got none"),
        ({"baseline": "no.json"}, r"Expected a baseline, but no\.json does not exist\. Make it with surefoot check"),
        ({"max": "nlll=1"}, r"nlll"),
        ({"max_ece": math.nan}, r"Expected --max ece from 0 to 1, but got nan"),
        ({"max_nll": 1.0, "level": 2.0}, r"Expected a level between 0 and 1, but got 2\.0"),
        ({"max_nll": 1.0, "positive": "1"}, r"Expected two classes with --positive, but .* has 3"),
        ({"max": "nll@temperature=1"}, r"Expected a metric of the file as it is"),
    ],
)
def test_what_cannot_be_checked_is_refused(options: dict, text: str) -> None:
    logits, labels = made(50)
    with pytest.raises(InputError, match=text):
        sf.check(logits=logits, labels=labels, **options)


def test_a_baseline_of_something_else_is_refused(tmp_path: Path) -> None:
    three, two = made(60), made(60, 2)
    path = sf.check(logits=three[0], labels=three[1]).save_baseline(tmp_path / "main.json")
    with pytest.raises(InputError, match=r"Expected a baseline of 2 classes, but main\.json is of 3"):
        sf.check(logits=two[0], labels=two[1], baseline=path)
    with pytest.raises(InputError, match=r"Expected a baseline of 10 bins, but main\.json is of 15"):
        sf.check(logits=three[0], labels=three[1], baseline=path, bins=10)
    with pytest.raises(InputError, match=r"Expected top_k_accuracy in the baseline, but it holds accuracy, .*nll"):
        sf.check(logits=three[0], labels=three[1], baseline=path, compare="top_k_accuracy")
    with pytest.raises(InputError, match=r"Expected a metric whose difference has an interval, but that of aurc"):
        sf.check(logits=three[0], labels=three[1], baseline=path, compare="aurc")
    saved = sf.check(logits=three[0], labels=three[1], max="entropy=9").save_baseline(tmp_path / "e.json")
    with pytest.raises(InputError, match=r"Expected a metric that has a better direction, but entropy has none"):
        sf.check(logits=three[0], labels=three[1], baseline=saved, compare="entropy")
    values = json.loads(path.read_text())
    sick = sf.check(logits=two[0], labels=two[1], positive="0").save_baseline(tmp_path / "sick.json")
    with pytest.raises(InputError, match=r"Expected a baseline of the risk P\(class 1\), but sick\.json is of"):
        sf.check(logits=two[0], labels=two[1], baseline=sick)
    bins = ([1], [[10**400]] * 3)
    odd = [{**values, "rows": {"n": 5}}, *({**values, "bins": each} for each in bins)]
    signed = [{**each, "checksum": _checksum(each)} for each in odd]  # as if somebody had saved it so
    for broken in ("{", "[]", "{}", *map(json.dumps, signed)):
        path.write_text(broken)
        with pytest.raises(InputError, match=r"main\.json is something else or incomplete"):
            sf.check(logits=three[0], labels=three[1], baseline=path)
    path.write_text(json.dumps({**values, "n": values["n"] + 1}))
    with pytest.raises(InputError, match=r"Expected a baseline as it was saved, but main\.json was changed since"):
        sf.check(logits=three[0], labels=three[1], baseline=path)
    path.write_text(json.dumps({**values, "surefoot_baseline": 9}))
    with pytest.raises(InputError, match=r"Expected a baseline of edition 1, but main\.json has 9"):
        sf.check(logits=three[0], labels=three[1], baseline=path)


def test_the_command_exits_with_what_it_found(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(1000)
    np.savez(tmp_path / "good.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "bad.npz", logits=2 * logits, labels=labels)
    done = run_command("check", "good.npz", "--min-accuracy", "0.3", "--save-baseline", "main.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("passed: 1 check, on 1,000 rows.\n")
    assert "Saved: main.json" in done.stdout
    words = ("check", "bad.npz", "--max-ece", "0.05", "--baseline", "main.json")
    done = run_command(*words, "--markdown", "table.md", "--save-baseline", "other.json")
    assert done.returncode == 1
    assert "Not saved: other.json, because the gate is broken." in done.stdout
    assert not (tmp_path / "other.json").exists()
    table = (tmp_path / "table.md").read_text()
    assert table.startswith("### Calibration gate of bad.npz: broken\n")
    assert "| NLL no worse than main.json |" in table
    assert table.count("**broken**") == 3
    assert "so that all 4 checks together break by chance at most 5 % of the time" in table
    assert "main.json is of the same 1,000 examples, compared one by one" in table
    found = json.loads(run_command(*words, "--json").stdout)
    assert found["broken"] is True
    assert found["paired"] is True
    assert [each["status"] for each in found["checks"]] == ["broken", "undecided", "broken", "broken"]
    assert found["saved"] is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["a.npz"], "Expected something to check, but got no limit and no baseline. Say --max-ece 0.05."),
        (["no.npz", "--max-ece", "0.1"], "no.npz does not exist"),
        (["a.npz", "--save-baseline", "a.npz"], "Expected --save-baseline to be a .json file, but got 'a.npz'."),
        (
            ["a.npz", "--max-ece", "0.1", "--markdown", "a.npz"],
            "Choose another name with --markdown",
        ),
        (
            ["a.npz", "--max-ece", "0.1", "--markdown", "no/t.md"],
            "Expected a folder for no/t.md, but no does",
        ),
        (["a.npz", "--max-ece", "x"], "Invalid value for '--max-ece'"),
    ],
)
def test_what_the_command_cannot_do_exits_with_2(
    words: list[str], text: str, tmp_path: Path, run_command: RunCommand
) -> None:
    logits, labels = made(50)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    done = run_command("check", *words)
    assert done.returncode == 2
    assert text in done.stderr


def test_weights_are_refused_and_can_be_left_aside(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(100)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, weight=np.arange(1.0, 101.0))
    done = run_command("check", "a.npz", "--max-ece", "0.5")
    assert done.returncode == 2
    assert "Expected rows that count alike, but a.npz has weights in 'weight'" in done.stderr
    assert run_command("check", "a.npz", "--max-ece", "0.5", "--no-weights").returncode == 0
    done = run_command("estimate", "a.npz", "--reference", "a.npz")
    assert "Say --no-weights to count every row once." in done.stderr


def test_the_help_has_an_example(run_command: RunCommand) -> None:
    for command in ("check", "estimate"):
        assert f"Example: surefoot {command} " in " ".join(run_command(command, "--help").stdout.split())
