"""Studies as a whole: every one gives a verdict, resumes to the same table, and its page follows from its results."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import surefoot
from surefoot.errors import InputError
from surefoot.registry import STUDIES
from surefoot.studies.contract import OUTCOMES, SIZES
from surefoot.studies.pages import FOREST, is_finished, measured_on, table_of
from surefoot.studies.results import check_results, forest_text, load_result, page_text, write_file
from surefoot.studies.runner import find_studies
from surefoot.studies.verdicts import read_numbers
from tests.patience import PATIENCE
from tests.studies.gate import put_tickets, who_is_there

ROOT = Path(__file__).parents[2]
NAMES = [part.name for part in STUDIES]
COMMITTED = sorted((ROOT / "results").glob("*.json.xz"))


def study(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "surefoot", "study", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=PATIENCE)


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
    verdict = find_studies([name])[name].verdict(read_numbers(values), "smoke")
    assert {"outcome": verdict.outcome, "reason": verdict.reason} == values["verdict"]
    assert verdict.outcome == "underpowered"  # one seed proves nothing


@pytest.mark.parametrize("name", NAMES)
def test_a_file_holds_what_it_should(name: str, smoke: dict) -> None:
    saved = load_result(Path(smoke["folder"]) / "runs" / "results" / f"{name}.json.xz")
    assert saved.values == smoke["studies"][name]
    assert saved.drawings
    for run in (saved.runs[run] for arm in saved.values["arms"].values() for run in arm):
        assert run["spec"]["epochs"] >= 1
        assert any(record["metric"] == "ece" for record in run["measures"])
    assert smoke["folder"] not in json.dumps([saved.values, saved.runs])


def test_the_same_results_are_the_same_bytes(smoke: dict, tmp_path: Path) -> None:
    file, page = (Path(smoke["folder"]) / "runs" / name for name in ("results/a4.json.xz", "RESULTS.md"))
    before = file.read_bytes(), file.stat().st_mtime_ns, page.read_bytes()
    assert study("a4", "--size", "smoke", "--out", "runs", cwd=Path(smoke["folder"])).returncode == 0
    assert (file.read_bytes(), file.stat().st_mtime_ns, page.read_bytes()) == before
    saved = load_result(file)
    write_file(tmp_path / "a4.json.xz", saved.values, saved.runs)
    assert (tmp_path / "a4.json.xz").read_bytes() == before[0]


def fractions_in(values: Any) -> list[float]:
    """List the numbers in nested values that are not whole, in their order."""
    found: list[float] = []
    json.loads(json.dumps(values), parse_float=lambda text: found.append(float(text)))
    return found


def test_runs_that_results_hold_need_not_be_made_again(smoke: dict, tmp_path: Path) -> None:
    """From the files alone, in a folder without a run: all are taken over, and what is found is the same."""
    shutil.copytree(Path(smoke["folder"]) / "runs" / "results", tmp_path / "results")
    before = {name: load_result(tmp_path / "results" / f"{name}.json.xz") for name in NAMES}
    words = ["all", "--size", "smoke", "--out", "runs", "--results", "results", "--reuse"]
    done = study(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    n = len({run for saved in before.values() for run in saved.runs})
    assert f"{n} of {n} runs taken over from results\n" in done.stderr
    for name, earlier in before.items():
        after = load_result(tmp_path / "results" / f"{name}.json.xz")
        assert after.runs.keys() == earlier.runs.keys()
        for key in ("arms", "environment"):
            assert after.values[key] == earlier.values[key]
        assert after.verdict.outcome == earlier.verdict.outcome
        # Records have eight digits, so the last of three that a reason prints may round the other way.
        assert re.sub(r"[\d.]+", "#", after.verdict.reason) == re.sub(r"[\d.]+", "#", earlier.verdict.reason)
        for key in ("table", "numbers"):
            now, then = fractions_in(after.values[key]), fractions_in(earlier.values[key])
            assert now == pytest.approx(then, rel=1e-5, abs=1e-7)
    refused = study(*words, "--no-resume", cwd=tmp_path)
    assert refused.returncode == 2
    assert "Expected --reuse or --no-resume, but got both" in refused.stderr


def test_what_is_finished_is_judged_without_making_the_rest(smoke: dict, tmp_path: Path) -> None:
    results = Path(smoke["folder"]) / "runs" / "results"
    n = len(load_result(results / "a4.json.xz").runs)
    shutil.copytree(results, tmp_path / "results")
    words = ["a4", "--size", "smoke", "--out", "runs", "--results", "results"]
    assert study(*words, "--reuse", "--finished", cwd=tmp_path).returncode == 0
    gone = sorted(path for path in (tmp_path / "runs").iterdir() if (path / "done.json").exists())[0]
    shutil.rmtree(gone)
    done = study(*words, "--finished", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A4: 1 run is still to be made" in done.stderr
    assert not gone.exists()
    left = load_result(tmp_path / "results" / "a4.json.xz")
    assert len(left.runs) == n - 1
    assert "not judged before all runs are made: A4 (1 run to be made)." in (tmp_path / "RESULTS.md").read_text()
    assert "[A4]" not in (tmp_path / "RESULTS.md").read_text()
    assert "Not finished: A4 (1 run to be made)" in study("show", "a4", cwd=tmp_path).stdout
    refused = study(*words, "--finished", "--no-resume", cwd=tmp_path)
    assert "Expected --finished or --no-resume, but got both" in refused.stderr


@pytest.mark.parametrize("name", NAMES)
def test_every_study_says_what_it_asks_and_how_it_is_judged(name: str) -> None:
    found = find_studies([name])[name]
    assert found.question.endswith("?")
    assert "Held if" in found.rule or "eld if" in found.rule
    assert set(found.seeds) == set(SIZES)
    arms = found.grid("laptop").values()
    along = all(any(tracker.startswith("gn_sharpness") for tracker in arm.tracking.trackers) for arm in arms)
    assert found.seeds["laptop"] >= (3 if along else 5)
    assert all("{seed}" in (arm.data or "") for arm in arms)  # every seed divides the data anew
    assert found.drawings
    if found.fixed:
        assert found.first_seed >= 5  # others were spent on finding out what to ask
    if found.fixed and found.headline is None:
        assert "violated" in found.rule or "exceeded" in found.rule  # what is counted has no effect to show


def test_an_interrupted_study_goes_on_to_the_same_result(small_npz: Path, tmp_path: Path) -> None:
    """SIGKILL of the command and its worker in the midst of the second of two runs, then the same command again."""
    shutil.copy(small_npz, tmp_path / "small.npz")
    put_tickets(tmp_path / "gate", 1)
    env = {**os.environ, "PYTHONPATH": f"{Path(surefoot.__file__).parents[1]}{os.pathsep}{ROOT}"}
    words = ["tests.studies.gate:gated", "--jobs", "1", "--out"]
    command = [sys.executable, "-m", "surefoot", "study", *words, "runs"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=tmp_path, env=env, start_new_session=True, **quiet) as process:
        who_is_there(tmp_path / "gate", 1, is_over=lambda: process.poll() is not None)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(list((tmp_path / "runs").glob("*/done.json"))) == 1
    assert not (tmp_path / "runs" / "results").exists()
    saved = []
    for out in ("runs", "whole"):
        done = study(*words, out, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        saved.append(load_result(tmp_path / out / "results" / "tests.studies.gate-gated.json.xz"))
    resumed, straight = saved
    assert resumed.runs == straight.runs
    for key in ("table", "verdict", "arms"):
        assert resumed.values[key] == straight.values[key]
    page = (tmp_path / "runs" / "RESULTS.md").read_text()
    assert "[tests.studies.gate:gated](#testsstudiesgategated-underpowered)" in page
    assert "## tests.studies.gate:gated: underpowered" in page


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name.partition(".")[0])
def test_committed_results_are_read_and_drawn_again(path: Path, tmp_path: Path) -> None:
    saved = load_result(path)
    study = find_studies([saved.values["study"]])[saved.values["study"]]
    assert study.verdict(saved.numbers, saved.values["size"]) == saved.verdict
    assert (study.rule, str(study.fixed)) == (saved.values["rule"], saved.values["fixed"])
    if study.headline:
        assert study.headline.number in saved.numbers
    assert saved.table.rows
    assert len(saved.values["seeds"]) >= 1
    where = measured_on(saved.values)
    for spec in (run["spec"] for run in saved.runs.values()):
        assert spec["model"]["name"] in where
        assert spec["data"]["options"].get("of", spec["data"]["name"]).partition(":")[0] in where
    assert not re.search(r"/(home|root|work|tmp|Users)/", json.dumps([saved.values, saved.runs]))
    drawn = saved.draw(tmp_path)
    if is_finished(saved.values):  # an arm of an unfinished one may have no run yet
        assert len(drawn) == len(saved.drawings)
    for figure in drawn:
        assert figure.read_bytes()[:4] == b"\x89PNG"


def test_the_results_page_follows_from_the_results() -> None:
    """What is committed is what `surefoot study results` writes, with one section per study."""
    if not COMMITTED:
        pytest.skip("there are no results in this copy of the project")
    page = (ROOT / "RESULTS.md").read_text()
    assert page == page_text(ROOT / "results")
    assert (ROOT / "results" / FOREST).read_text() == forest_text(ROOT / "results")
    sections = page.split("\n## ")[1:]
    assert len(sections) == sum(is_finished(load_result(path).values) for path in COMMITTED)
    for section in sections:  # no section says an outcome twice
        said = re.findall(rf"(?i)\b({'|'.join(OUTCOMES)})[.:]", section.split("*Rule")[0].split("\n", 1)[1])
        assert len(said) == len(set(map(str.lower, said))), section


def test_a_result_is_shown_and_drawn(tmp_path: Path) -> None:
    if not COMMITTED:
        pytest.skip("there are no results in this copy of the project")
    saved = load_result(COMMITTED[0])
    values, name = saved.values, saved.values["study"]
    done = study("show", name.upper(), "--out", str(tmp_path), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    figures = [f"{name}-{i}-{each.figure.partition(':')[0]}.png" for i, each in enumerate(saved.drawings, start=1)]
    heads, rows = table_of(values["table"])
    for words in (
        f"{values['claim']}: {values['question']}\n",
        f"Rule, {values['fixed']}; judged on seeds {values['seeds'][0]} to {values['seeds'][-1]}: {values['rule']}\n",
        f"Published: {values['source']}. Measured: ",
        heads[-1].rpartition(", ")[0],
        *rows[-1],
        f"Verdict: {saved.verdict}\n",
        f"Figures: {', '.join(f'{tmp_path}/{figure}' for figure in figures)}\n",
        f"Read: results/{name}.json.xz, with the records of {len(saved.runs)} runs",
    ):
        assert words in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == set(figures)


def test_showing_nothing_is_refused(tmp_path: Path) -> None:
    done = study("show", cwd=tmp_path)
    assert done.returncode == 2
    assert "Expected the name of a study, but got none." in done.stderr


def test_nothing_is_replaced_that_surefoot_did_not_write(tmp_path: Path) -> None:
    """Neither a page nor a file of somebody's own, and nothing is run before that is said."""
    page, file = tmp_path / "RESULTS.md", tmp_path / "results" / "a4.json.xz"
    file.parent.mkdir()
    for path, says in (
        (page, "Expected {} to be free or a page"),
        (file, "Expected a file that `surefoot study` wrote"),
    ):
        path.write_text("# Results of my own\n")
        with pytest.raises(InputError, match=re.escape(says.format(path))):
            check_results(tmp_path / "results", ["a4"])
        done = study("a4", "--size", "smoke", "--results", "results", "--out", "runs", cwd=tmp_path)
        assert (done.returncode, path.read_text()) == (2, "# Results of my own\n")
        assert not (tmp_path / "runs").exists()
        path.unlink()


def test_mistakes_are_named(tmp_path: Path) -> None:
    for words, says in (
        (["a99"], "Unknown study 'a99'"),
        (["a1", "--size", "huge"], "Expected --size to be smoke, laptop, paper, but got 'huge'"),
        (["a1", "--engine", "cloud"], "Expected --engine to be local or ray, but got 'cloud'"),
        (["a1", "--store", "nowhere://x"], "Expected an address that fsspec can reach, but got nowhere://x"),
        (["results"], "Expected results, but"),
        (["show", "a4"], "Expected a result of 'a4', but"),
    ):
        done = study(*words, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
