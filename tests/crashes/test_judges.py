"""The judges of ``benchmarks/torture.py`` themselves: they agree with a right answer, and a wrong one is found."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import RunCommand

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
