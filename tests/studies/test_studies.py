"""Studies as a whole: every one gives a verdict, resumes to the same table, and its page follows from its results."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surefoot.registry import STUDIES
from surefoot.studies.contract import SIZES
from surefoot.studies.pages import page_of, read_numbers, result_page
from surefoot.studies.results import read_results
from surefoot.studies.runner import find_studies

ROOT = Path(__file__).parents[2]
NAMES = [part.name for part in STUDIES]
OUTCOMES = {"held", "did not hold", "not resolved"}


def study(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surefoot", "study", *words], capture_output=True, text=True, cwd=cwd, timeout=900
    )


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """All studies at the smallest size, made once for all processes that run tests."""
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke"
    out.mkdir(exist_ok=True)
    with (out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        printed = out / "printed.json"
        if not printed.exists():
            done = study("all", "--size", "smoke", "--out", "runs", "--json", cwd=out)
            assert done.returncode == 0, done.stderr
            printed.write_text(done.stdout)
    return {**json.loads(printed.read_text()), "folder": str(out)}


def test_every_study_gives_a_verdict(smoke: dict) -> None:
    assert set(smoke["studies"]) == set(NAMES)
    for values in smoke["studies"].values():
        assert values["verdict"]["outcome"] in OUTCOMES
        assert values["verdict"]["reason"]
        assert values["cost"]["runs"] > 0
        assert values["failed"] == {}


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_follow_from_the_numbers(name: str, smoke: dict) -> None:
    values = smoke["studies"][name]
    verdict = find_studies([name])[name].judge(read_numbers(values))
    assert {"outcome": verdict.outcome, "reason": verdict.reason} == values["verdict"]
    if name.startswith("a") and name != "a13":  # the others count violations, or pool learning rates
        assert verdict.outcome != "held"  # one seed proves nothing


@pytest.mark.parametrize("name", NAMES)
def test_results_hold_what_they_should(name: str, smoke: dict) -> None:
    folder = Path(smoke["folder"]) / "runs" / "results"
    values = smoke["studies"][name]
    page = (folder / name / "README.md").read_text()
    assert page == result_page(values)
    assert values["rule"] in page
    assert values["figures"]
    for figure in values["figures"]:
        assert (folder / name / figure).read_bytes()[:4] == b"\x89PNG"
    runs = [run for arm in values["arms"].values() for run in arm]
    for run in runs:
        text = gzip.decompress((folder / "runs" / f"{run}.jsonl.gz").read_bytes()).decode()
        records = [json.loads(line) for line in text.splitlines()]
        assert records[0]["spec"]["epochs"] >= 1
        assert any(record.get("metric") == "ece" for record in records)
        assert smoke["folder"] not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_study_says_what_it_asks_and_how_it_is_judged(name: str) -> None:
    found = find_studies([name])[name]
    assert found.claim.lower() == name
    assert found.question.endswith("?")
    assert "Held if" in found.rule or "eld if" in found.rule
    assert set(found.seeds) == set(SIZES)
    # Curvature along training is pooled over learning rates, finished networks over seeds.
    arms = found.grid("laptop").values()
    along = all(any(tracker.startswith("gn_sharpness") for tracker in arm.tracking.trackers) for arm in arms)
    assert found.seeds["laptop"] >= (1 if along else 3)
    assert found.seeds["laptop"] * len(arms) >= 4
    assert found.drawings


def test_an_interrupted_study_goes_on_to_the_same_table(tmp_path: Path) -> None:
    """SIGKILL of the command and its workers at a moment that nobody chose, then the same command again."""
    words = ["a4", "--size", "smoke", "--seeds", "3", "--jobs", "1", "--out", "runs"]
    command = [sys.executable, "-m", "surefoot", "study", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    end = time.monotonic() + 600
    while len(list((tmp_path / "runs").glob("*/done.json"))) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    made = len(list((tmp_path / "runs").glob("*/done.json")))
    assert 3 <= made < 9
    assert not (tmp_path / "runs" / "results").exists()
    assert study(*words, cwd=tmp_path).returncode == 0
    whole = [*words[:-1], "whole"]
    assert study(*whole, cwd=tmp_path).returncode == 0
    resumed, straight = (
        json.loads((tmp_path / out / "results" / "a4" / "result.json").read_text()) for out in ("runs", "whole")
    )
    assert resumed["table"] == straight["table"]
    assert resumed["verdict"] == straight["verdict"]
    assert resumed["arms"] == straight["arms"]


def test_the_results_page_follows_from_the_results() -> None:
    """What is committed is what `surefoot study results` makes."""
    if not (ROOT / "results").exists():
        pytest.skip("there are no results in this copy of the project")
    found = read_results(ROOT / "results")
    assert (ROOT / "RESULTS.md").read_text() == page_of(found, "results")
    for values in found:
        assert (ROOT / "results" / values["study"] / "README.md").read_text() == result_page(values)
        text = json.dumps(values)
        assert not re.search(r"/(home|root|work|tmp|Users)/", text)


def test_mistakes_are_named(tmp_path: Path) -> None:
    for words, says in (
        (["a99"], "Unknown study 'a99'"),
        (["a1", "--size", "huge"], "Expected --size to be smoke, laptop, paper, but got 'huge'"),
        (["a1", "--engine", "cloud"], "Expected --engine to be local or ray, but got 'cloud'"),
        (["a1", "--store", "s3://x"], "Expected --store with --engine ray"),
        (["results"], "Expected results, but"),
    ):
        done = study(*words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
