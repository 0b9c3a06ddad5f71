"""The judges of ``benchmarks/torture.py`` themselves: they agree with a right answer, and a wrong one is found."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import RunCommand
from tests.crashes.commands import SETTINGS

pytest.importorskip("pandas")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def torture(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_every_kind_of_input_has_a_judge(torture: Any, tmp_path: Path, run_command: RunCommand) -> None:
    inputs, judges = torture("_torture_inputs"), torture("_torture_judges")
    draws = np.random.default_rng(0)
    for kind, how in inputs.KINDS.items():
        if kind == "pipe":
            continue
        files = how.files(draws)
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(content)
        first = next(iter(files))
        done = run_command(*how.typed(first).replace("'", "").split())
        assert done.returncode == 0, (kind, done.stderr)
        (said,) = json.loads(done.stdout)["audits"]
        rows = inputs.understood(kind, first, files, said["took"])
        assert judges.audit(said, rows) == "", kind
        for key in ("accuracy", "gap", "ece"):
            wrong = json.loads(done.stdout)["audits"][0]
            wrong["verdict"][key]["estimate"] += 0.3
            assert key in judges.audit(wrong, rows), (kind, key)
        assert "rows" in judges.audit({**said, "n": said["n"] + 1}, rows)
        for path in (tmp_path / name for name in files):
            path.unlink()


def test_wrong_temperatures_and_sets_are_found(torture: Any, tmp_path: Path, run_command: RunCommand) -> None:
    made, judges, reader = torture("_torture_made"), torture("_torture_judges"), torture("_torture_reader")
    draws = np.random.default_rng(0)
    for name in ("good", "other"):
        probs, labels = made.rows(draws, 200)
        np.savez(tmp_path / f"{name}.npz", logits=np.log(probs + 1e-9), labels=labels)
    rows = reader.read("other.npz", (tmp_path / "other.npz").read_bytes(), "'logits' as logits, 'labels' as labels")
    for words in (
        "calibrate other.npz --method temperature --out c.json",
        "calibrate good.npz --apply c.json --out repaired.npz",
        "conformal other.npz --method lac --out sets.json",
        "conformal good.npz --apply sets.json --out with-sets.csv",
    ):
        assert run_command(*words.split()).returncode == 0, words
    assert judges.temperature(tmp_path / "c.json", rows) == judges.quantile(tmp_path / "sets.json", rows) == ""
    assert judges.repaired(tmp_path, "c.json") == judges.with_sets(tmp_path) == ""
    for name, key, value in (("c.json", "temperature", 3.0), ("sets.json", "thresholds", [-0.2])):
        held = json.loads((tmp_path / name).read_text())
        (tmp_path / name).write_text(json.dumps({**held, key: value}))
    assert judges.temperature(tmp_path / "c.json", rows).startswith("NLL")
    assert judges.quantile(tmp_path / "sets.json", rows).startswith("threshold")
    assert judges.repaired(tmp_path, "c.json") == "other logits than the calibrator makes"
    assert judges.with_sets(tmp_path).startswith("set ")


def test_wrong_checks_estimates_and_groups_are_found(torture: Any, tmp_path: Path, run_command: RunCommand) -> None:
    made, judges, reader = torture("_torture_made"), torture("_torture_judges"), torture("_torture_reader")
    draws = np.random.default_rng(0)
    rows = {}
    for name in ("good.npz", "other.npz"):
        probs, labels = made.rows(draws, 200)
        np.savez(tmp_path / name, logits=np.log(probs + 1e-9), labels=labels)
        rows[name] = reader.read(name, (tmp_path / name).read_bytes(), "'logits' as logits, 'labels' as labels")

    def said(words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run_command(*words.split()).stdout)
        return found

    checked = said("check other.npz --max-ece 0.9 --json")
    assert judges.check(checked, rows["other.npz"], 0.9) == ""
    assert judges.check(checked, rows["other.npz"], 0.0).startswith("passed at an ECE of")
    assert judges.check({**checked, "broken": True}, rows["other.npz"], 0.9).startswith("broken at an ECE of")
    assert judges.check(checked, rows["good.npz"], 0.9).startswith("ece ")
    estimated = said("estimate other.npz --reference good.npz --json")
    assert judges.estimate(estimated, rows["good.npz"], 200) == ""
    assert judges.estimate(estimated, rows["good.npz"], 199) == "rows 200 for 199"
    assert all(word in judges.estimate(estimated, rows["other.npz"], 200) for word in ("accuracy", "nll", "share of"))
    run_command(*["check", "other.npz", "--max-ece", "0.9", "--save-baseline", "baseline.json"])
    compared = said("check good.npz --baseline baseline.json --json")
    assert judges.baseline(compared, tmp_path) == ""
    for key, word in (("value", "ece 0"), ("was", "ece before"), ("change", "change of ece")):
        wrong = json.loads(json.dumps(compared))
        (one,) = (each for each in wrong["checks"] if each["metric"] == "ece")
        one[key]["estimate"] += 0.1
        assert word in judges.baseline(wrong, tmp_path), key


def test_wrong_groups_are_found(torture: Any, tmp_path: Path, run_command: RunCommand) -> None:
    inputs, judges = torture("_torture_inputs"), torture("_torture_judges")
    how = inputs.KINDS["groups"]
    ((name, content),) = how.files(np.random.default_rng(0)).items()
    (tmp_path / name).write_bytes(content)
    (said,) = json.loads(run_command(*how.typed(name).split()).stdout)["audits"]
    assert judges.groups(said, content) == ""
    first = said["slices"][0]
    first["verdict"]["accuracy"]["estimate"] += 0.1
    assert judges.groups(said, content).startswith(f"accuracy of {first['value']}")
    first["verdict"]["n"] += 1
    assert judges.groups(said, content).startswith(f"rows of {first['value']}")


def test_wrong_folders_are_found(torture: Any, tmp_path: Path, run_command: RunCommand, small_npz: Path) -> None:
    folders = torture("_torture_folders")
    shutil.copyfile(small_npz, tmp_path / "small.npz")
    assert run_command(*f"train --out finished/run --log csv {SETTINGS}".split()).returncode == 0
    place = tmp_path / "changed"
    shutil.copytree(tmp_path / "finished", place)
    said = json.loads(run_command(*["report", "changed/run", "--out", "page.html", "--json"]).stdout)
    assert folders.consistent(place) == folders.reported(said, place) == ""
    assert folders.resumed(tmp_path, place, "finished", "run/steps.jsonl") == ""
    measures = place / "run" / "measures.jsonl"
    measures.write_bytes(measures.read_bytes() + b'{"metric": "e')  # torn: no line
    assert folders.reported(said, place) == ""
    measures.write_bytes(measures.read_bytes().removesuffix(b'{"metric": "e'))
    said["rows"][0]["ece"]["mean"] += 0.1
    assert folders.reported(said, place).startswith("ece ")
    lines = [json.loads(line) for line in measures.read_text().splitlines()]
    measures.write_text("".join(json.dumps({**each, "value": 0.5}) + "\n" for each in lines if "value" in each))
    assert folders.consistent(place).startswith("measures that are not those of the predictions")
    predicted = place / "run" / folders.PREDICTIONS[-1]
    predicted.write_bytes(predicted.read_bytes()[:-1])
    assert folders.resumed(tmp_path, place, "begun", "run/steps.jsonl") == "other bytes in predictions/test.npz"
    (place / "run" / "done.json").unlink()
    assert folders.resumed(tmp_path, place, "finished", "run/steps.jsonl").endswith("run/done.json")
