"""What is chosen on the calibration split, and what the verdict says of it on the test split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from surefoot.report.choice import choose, to_json, verdict
from surefoot.report.summary import Summary, summarise
from tests.conftest import RunCommand
from tests.runs import fake_run

CLEAR = {"sgd": (0.100, 0.101, 0.099), "sam": (0.07, 0.071, 0.069), "csam": (0.05, 0.05, 0.05)}


def compared(
    folder: Path, on_test: Mapping[str, Sequence[float]], held_out: Mapping[str, float] | None = None
) -> Summary:
    """Methods with an ECE per seed on test, and one ECE on the calibration split; else that of test."""
    return summarise([
        fake_run(
            folder,
            method,
            seed,
            measures={"accuracy": 0.8, "ece": ece},
            calibration={"ece": held_out[method] if held_out else ece},
        )
        for method, values in on_test.items()
        for seed, ece in enumerate(values)
    ])


def test_the_test_split_has_no_say_in_the_choice(tmp_path: Path) -> None:
    summary = compared(tmp_path, {"sgd": (0.01, 0.02, 0.03), "sam": (0.05, 0.05, 0.05)}, {"sgd": 0.09, "sam": 0.08})
    choice = choose(summary)
    assert choice is not None
    assert choice.row.label == "sam"
    said = verdict(summary)
    assert said.startswith("Chosen on the calibration split: sam. On test: ECE 5.0 %, accuracy 80.0 %.")
    assert "3.0 points above sgd" in said
    assert "sgd is better calibrated than it there, clear of zero" in said
    assert "best" not in said


def test_what_is_clear_of_all_others_is_called_best(tmp_path: Path) -> None:
    said = verdict(compared(tmp_path, CLEAR))
    assert said == (
        "Chosen on the calibration split: csam. On test it is best calibrated: ECE 5.0 %, accuracy 80.0 %. "
        "That is 5.0 points below sgd (95 % interval −5.2 to −4.8, n = 3; clear of zero). "
        "It is clear of zero against sam too."
    )


def test_what_is_clear_of_the_baseline_alone_is_not(tmp_path: Path) -> None:
    said = verdict(compared(tmp_path, {**CLEAR, "sam": (0.04, 0.08, 0.05)}))
    assert "below sgd (95 % interval −5.2 to −4.8, n = 3; clear of zero)" in said
    assert "Against sam it is not clear of zero. More seeds would tell." in said
    assert "best" not in said


@pytest.mark.parametrize(
    ("on_test", "says"),
    [
        (
            {"sgd": (0.05, 0.05, 0.06), "sam": (0.02, 0.11, 0.20)},
            "points below sam (95 % interval −26.8 to +15.5, n = 3",
        ),
        ({"sgd": (0.10, 0.12), "sam": (0.05, 0.11)}, "not clear of zero). More seeds would tell."),
        ({"sgd": (0.1,), "sam": (0.05,)}, "5.0 points below sgd; with one seed there is no telling whether"),
        ({"sgd": (0.05,), "sam": (0.1,)}, "5.0 points below sam; with one seed there is no telling whether"),
    ],
    ids=["the baseline wins", "two seeds", "one seed", "one seed, the baseline wins"],
)
def test_nothing_is_called_best_where_nothing_is_clear(
    tmp_path: Path, on_test: dict[str, tuple[float, ...]], says: str
) -> None:
    summary = compared(tmp_path, on_test)
    said = verdict(summary)
    assert says in said
    assert "best" not in said
    assert to_json(summary)["choice"]["is_best"] is False


def test_a_baseline_that_is_clear_of_the_others_is_called_best(tmp_path: Path) -> None:
    said = verdict(compared(tmp_path, {"sgd": CLEAR["csam"], "sam": CLEAR["sam"], "csam": CLEAR["sgd"]}))
    assert "On test it is best calibrated" in said
    assert "2.0 points below sam" in said  # the runner-up, which is the harder one to beat


def test_without_a_shared_seed_nothing_can_be_paired(tmp_path: Path) -> None:
    runs = [fake_run(tmp_path, "sgd", 0), fake_run(tmp_path, "sam", 1, measures={"ece": 0.01})]
    assert verdict(summarise(runs)) == (
        "Chosen on the calibration split: sam. On test: ECE 1.0 %. "
        "It shares no seed with sgd: there is no telling whether that is luck."
    )


def test_runs_without_an_ece(tmp_path: Path) -> None:
    assert verdict(summarise([fake_run(tmp_path, measures={"accuracy": 0.8})])) == "No run has an ECE."
    runs = [fake_run(tmp_path, method, calibration={}) for method in ("sgd", "sam")]
    assert "the runs hold no ECE on the calibration split" in verdict(summarise(runs))
    assert to_json(summarise(runs))["choice"] is None


def test_one_method_is_compared_with_nothing(tmp_path: Path) -> None:
    summary = summarise([fake_run(tmp_path, "sgd", seed) for seed in (0, 1)])
    assert verdict(summary) == "sgd: ECE 5.0 %, accuracy 80.0 %."
    assert to_json(summary)["choice"] is None


def test_a_method_that_gives_one_answer_is_not_chosen(tmp_path: Path) -> None:
    """Always saying the largest class with its share for confidence is perfectly calibrated, and worth nothing."""
    flat = {"accuracy": 0.45, "ece": 0.003}
    good = [fake_run(tmp_path, "sgd", seed, constant=(0.45, 0.35, 0.01)) for seed in (0, 1)]
    flat_runs = [fake_run(tmp_path, "csam", seed, measures=flat, constant=(0.45, 0.0, 0.0)) for seed in (0, 1)]
    summary = summarise([*good, *flat_runs])
    assert [sorted(row.best) for row in summary.rows] == [["accuracy", "brier", "ece", "nll"], []]
    said = verdict(summary)
    assert said.startswith("Chosen on the calibration split: sgd.")
    assert said.endswith("Not chosen from: csam, no better than always saying the largest class.")
    nobody = summarise([
        fake_run(tmp_path / "b", m, measures=flat, constant=(0.45, 0.01, 0.02)) for m in ("sgd", "sam")
    ])
    assert verdict(nobody) == (
        "No method beats always saying the largest class (45.0\N{NO-BREAK SPACE}% on test): ECE means little here."
    )
    assert to_json(nobody)["choice"] is None
    assert not any(row.best for row in nobody.rows)
    assert "not clear above always saying the largest class" in verdict(summarise(flat_runs))


def test_labels_that_say_nothing_about_the_inputs(tmp_path: Path, run_command: RunCommand) -> None:
    """A real comparison: nothing can be learned, so no method may be recommended for its low ECE."""
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 300), ("calibration", 200), ("test", 200)):
        arrays[f"x_{split}"] = rng.integers(0, 256, (n, 4), dtype=np.uint8)
        arrays[f"y_{split}"] = rng.choice(3, n, p=[0.6, 0.2, 0.2])
    np.savez(tmp_path / "noise.npz", **arrays)
    words = ["--data", "npz:noise.npz", "--model", "mlp:width=4,depth=1", "--epochs", "1", "--lr", "0.001"]
    done = run_command("compare", "--methods", "sgd,sam", "--seeds", "2", "--jobs", "1", *words)
    share = 100 * (arrays["y_test"] == np.bincount(arrays["y_train"]).argmax()).mean()
    assert done.returncode == 0, done.stderr
    assert f"No method beats always saying the largest class ({share:.1f}" in done.stdout
    assert "best calibrated" not in done.stdout
    page = (tmp_path / "surefoot-runs" / "report.html").read_text(encoding="utf-8")
    assert "No method beats always saying the largest class" in page
    one = run_command("train", "--out", "one", *words)
    assert "not clear above always saying the largest class" in one.stdout
    machine = json.loads(run_command("train", "--out", "one", *words, "--json").stdout)
    assert machine["constant"]["is_beaten"] is False
    assert set(machine["calibration"]) == {"accuracy", "ece", "nll", "brier"}
    records = [json.loads(line) for line in (tmp_path / "one" / "steps.jsonl").read_text().splitlines()]
    seen = [record for record in records if record.get("tracker") == "quality"]
    assert [record["epoch"] for record in seen] == [0, 1]
    assert all({"calibration/accuracy", "calibration/ece", "calibration/loss"} <= set(record) for record in seen)
    assert seen[-1]["calibration/ece"] == pytest.approx(machine["calibration"]["ece"]["mean"])
    assert machine["constant"]["share"] == pytest.approx(share / 100)
