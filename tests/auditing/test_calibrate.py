"""Calibrators fitted on files: which one and why, saved, applied to other rows, refused on their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit, calibrate
from surefoot.calibrators import load
from surefoot.schema import Predictions
from tests.auditing.made import NAMES, made, softmax, write
from tests.conftest import RunCommand


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_fit_save_apply(suffix: str, tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "val.npz", *made(1500, temperature=0.5))
    logits, labels = made(1500, temperature=0.5, seed=1)
    write(tmp_path / "test.csv", logits, labels)
    done = run_command("calibrate", "val.npz", "--out", f"c.{suffix}")
    assert done.returncode == 0, done.stderr
    assert re.match(r"use (\w+): \1 lowers the NLL from [\d.]+ to [\d.]+ on examples it was not fitted on", done.stdout)
    for name in (" ★", "none", "temperature", "isotonic", "dirichlet", f"Saved: c.{suffix}"):
        assert name in done.stdout
    calibrator = load(tmp_path / f"c.{suffix}")
    applied = run_command("calibrate", "test.csv", "--apply", f"c.{suffix}", "--out", "repaired.npz")
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.startswith(f"{calibrator.name} brings ECE from ")
    with np.load(tmp_path / "repaired.npz") as repaired:
        np.testing.assert_array_equal(repaired["labels"], labels)
        assert tuple(repaired["class_names"]) == NAMES
        np.testing.assert_allclose(softmax(repaired["logits"]), calibrator.probs(logits), atol=1e-5)
    assert audit(tmp_path / "repaired.npz")[0].verdict.finding == "calibrated"


def test_never_scored_on_the_rows_it_was_fitted_on(tmp_path: Path, run_command: RunCommand) -> None:
    logits, labels = made(300, temperature=0.5)
    write(tmp_path / "a.npz", logits, labels)
    write(tmp_path / "same.csv", logits, labels)
    assert run_command("calibrate", "a.npz", "--method", "temperature").returncode == 0
    for name in ("a.npz", "same.csv"):  # the format does not matter
        done = run_command("calibrate", name, "--apply", "calibrator.json", "--out", "r.npz")
        assert done.returncode == 2
        assert "holds those very rows" in done.stderr
    assert not (tmp_path / "r.npz").exists()


def test_fitted_on_the_validation_set_and_applied_to_the_test_set_of_one_file(
    tmp_path: Path, run_command: RunCommand
) -> None:
    val, test = made(400, temperature=0.5), made(500, temperature=0.5, seed=1)
    np.savez(tmp_path / "a.npz", val_logits=val[0], val_labels=val[1], test_logits=test[0], test_labels=test[1])
    values = json.loads(run_command("calibrate", "a.npz", "--method", "vector", "--json").stdout)
    assert (values["calibrator"], values["n"]) == ("vector", 400)
    assert {each["name"] for each in values["candidates"]} == {"none", "vector"}
    applied = json.loads(run_command("calibrate", "a.npz", "--apply", "calibrator.json", "--json").stdout)
    assert applied["n"] == 500
    assert applied["after"]["nll"] < applied["before"]["nll"]
    assert applied["written"] == "a-repaired.npz"
    np.savez(tmp_path / "only.npz", test_logits=test[0], test_labels=test[1])
    refused = run_command("calibrate", "only.npz")
    assert refused.returncode == 2
    assert "only.npz holds a test set only" in refused.stderr


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_where_nothing_needs_repair_what_is_saved_changes_nothing(
    suffix: str, tmp_path: Path, run_command: RunCommand
) -> None:
    write(tmp_path / "a.npz", *made(1000))
    done = run_command("calibrate", "a.npz", "--out", f"c.{suffix}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("use none: ")
    assert "leave the predictions as they are" in done.stdout
    assert f"Saved: c.{suffix}, which changes nothing" in done.stdout
    logits, labels = made(200, seed=1)
    write(tmp_path / "b.npz", logits, labels)
    applied = json.loads(run_command("calibrate", "b.npz", "--apply", f"c.{suffix}", "--json").stdout)
    assert applied["calibrator"] == "none"
    assert applied["after"]["nll"] == pytest.approx(applied["before"]["nll"])
    with np.load(tmp_path / "b-repaired.npz") as repaired:
        np.testing.assert_allclose(softmax(repaired["logits"]), softmax(logits), atol=1e-6)


def test_a_method_that_does_not_help_is_fitted_and_said_to_be_so(tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "a.npz", *made(300))
    said = run_command("calibrate", "a.npz", "--method", "isotonic").stdout
    assert re.match(
        r"isotonic as you said, but on rows that it was not fitted on it brings the NLL from [\d.]+ to ", said
    )
    assert "but No" not in said
    none = json.loads(run_command("calibrate", "a.npz", "--method", "none", "--json").stdout)
    assert none["calibrator"] == "none"


def test_what_it_brings_has_an_interval_and_what_was_not_compared_a_reason(
    tmp_path: Path, run_command: RunCommand
) -> None:
    logits, labels = made(120, 12, temperature=0.5)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    done = run_command("calibrate", "a.npz")
    assert re.search(r"not fitted on, by [\d.]+ \(95 % interval [\d.]+ to [\d.]+\)", done.stdout), done.stdout
    said = " ".join(done.stdout.split())
    assert "Left out: dirichlet, matrix (more parameters than rows)." in said
    refused = run_command("calibrate", "a.npz", "--method", "prior:target=em")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "Expected train beside target=em" in refused.stderr
    prior = "prior:train=" + "/".join(["1"] * 12)
    assert run_command("calibrate", "a.npz", "--method", prior).returncode == 0
    assert load(tmp_path / "calibrator.json").name == "prior"


def test_weights_of_a_file_enter_the_fit() -> None:
    logits, labels = made(400, temperature=0.5)
    counts = np.random.default_rng(0).integers(0, 4, 400)
    once = Predictions(logits, labels, "calibration", weights=counts.astype(float))
    again = once.rows(np.repeat(np.arange(400), counts))
    weighed, repeated = (
        calibrate(once, method="vector"),
        calibrate(Predictions(again.logits, again.labels, "calibration"), method="vector"),
    )
    np.testing.assert_allclose(weighed.calibrator.probs(logits), repeated.calibrator.probs(logits), atol=1e-6)


def test_what_cannot_be_fitted_or_applied(tmp_path: Path, run_command: RunCommand) -> None:
    write(tmp_path / "few.npz", *made(5))
    write(tmp_path / "a.npz", *made(100))
    logits, labels = made(100, 4)
    np.savez(tmp_path / "four.npz", logits=logits, labels=labels)
    (tmp_path / "no.json").write_text("{}")
    run_command("calibrate", "a.npz", "--method", "vector")
    for words, says in {
        "calibrate few.npz": "Expected at least 10 rows to compare on, but few.npz has 5",
        "calibrate a.npz --apply no.json": "Expected a saved calibrator",
        "calibrate a.npz --apply missing.json": "Expected a saved calibrator",
        "calibrate four.npz --apply calibrator.json": "Expected a calibrator for 4 classes",
        "calibrate a.npz --apply calibrator.json --out r.txt": "Expected --out to end in .npz, .csv, .tsv",
        "calibrate a.npz --apply calibrator.json --out a.npz": "Expected to write another file than is read",
    }.items():
        done = run_command(*words.split())
        assert done.returncode == 2, words
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1
