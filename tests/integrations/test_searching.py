"""Searches of a comparison: by the calibration split, stopped early, gone on with, judged with other seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

import surefoot as sf
from surefoot.api import ComparisonReport
from surefoot.errors import InputError, RunError
from surefoot.integrations.searching import open_study
from surefoot.studies import engine
from surefoot.studies.engine import Job, News

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


class Inline:
    """An engine without processes, which take seconds to start; it remembers what it has made."""

    slots = 1

    def __init__(self, stop_at: int | None = None) -> None:
        self.made: list[Path] = []
        self.over: list[tuple[int, BaseException | None]] = []
        self.stop_at = stop_at

    def submit(self, number: int, job: Job) -> None:
        if len(self.made) == self.stop_at:
            raise KeyboardInterrupt
        self.made.append(job.path)
        try:
            engine.make(job, job.path, lambda step, n_steps, loss: None)
            self.over.append((number, None))
        except Exception as error:
            self.over.append((number, error))

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        return []

    def ended(self) -> Iterable[tuple[int, BaseException | None]]:
        over, self.over = self.over, []
        return over

    def close(self) -> None:
        pass


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> Inline:
    made = Inline()
    monkeypatch.setattr(engine, "_open", lambda placement, n_jobs: made)
    return made


def compare(data: Path, out: Path, **words: Any) -> ComparisonReport:
    small = {"data": f"npz:{data}", "model": "mlp:width=8,depth=1", "epochs": 3, "batch_size": 30, "seeds": 1}
    return sf.compare(**{"methods": "", **small, "out": out, **words})


def trials_in(out: Path) -> list[Any]:
    (folder,) = out.glob("search/*")
    return list(open_study(folder, "minimize").trials)


def test_the_best_on_calibration_is_trained_anew_and_more_trials_go_on(small_npz: Path, tmp_path: Path) -> None:
    """With real processes; the second time two of three trials are there."""
    words = {"methods": "sgd", "search": "sam:rho=0.01..0.5 log", "prune": "none", "jobs": 1, "seeds": [5]}
    heard: list[News] = []
    first = compare(small_npz, tmp_path, trials=2, **words, progress=lambda jobs: heard.append)
    (grid,) = first.grids
    trials = [run for row in grid.rows for run in row.runs]
    best = min(trials, key=lambda run: sf.load_run(run.path).measure("nll", split="calibration"))
    assert [run.spec.seed for run in trials] == [1000, 1000]
    assert (grid.tried, grid.stopped, grid.chosen and grid.chosen.runs[0].path) == (2, 0, best.path)
    assert [run.spec.method.name for run in first.runs] == ["sgd", best.spec.method.name]
    assert first.runs[1].spec == dataclasses.replace(best.spec, seed=5)
    assert "Not all were given the same number of settings: 2 settings of sam:rho=0.01..0.5 log; sgd as it" in str(
        first
    )
    assert sum(news.done for news in heard) == 4
    stamps = {run.path: (run.path / "done.json").stat().st_mtime_ns for run in trials}
    second = compare(small_npz, tmp_path, trials=3, **words)
    assert second.grids[0].tried == 3
    assert {path: (path / "done.json").stat().st_mtime_ns for path in stamps} == stamps


def test_hopeless_settings_of_a_grid_are_stopped(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    found = compare(small_npz, tmp_path, grid="sgd:lr=0.1|1e-6|1e30", prune="asha")
    (grid,) = found.grids
    assert (grid.tried, grid.stopped, grid.chosen and grid.chosen.label) == (3, 2, "sgd:lr=0.1")
    states = [(trial.params["lr"], trial.state, list(trial.intermediate_values)) for trial in trials_in(tmp_path)]
    good, bad, diverged = states
    assert good == ("0.1", TrialState.COMPLETE, [1, 2])
    assert bad == ("1e-6", TrialState.PRUNED, [1])
    assert diverged[1] is TrialState.PRUNED
    assert found.failed == {}
    assert found.note == ""
    assert "of 3 settings, 2 of them stopped early, sgd:lr=0.1 has the best NLL on the calibration split" in str(found)


def test_an_interrupted_search_goes_on(
    inline: Inline, small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"search": "sam:rho=0.01..0.5 log", "trials": 3, "prune": "none"}
    inline.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        compare(small_npz, tmp_path, **words)
    done, running = trials_in(tmp_path)
    assert (done.state, running.state) == (TrialState.COMPLETE, TrialState.RUNNING)
    first, inline.stop_at, inline.made = inline.made, None, []
    compare(small_npz, tmp_path, **words)
    assert len(inline.made) == 3  # two trials, and the chosen setting with another seed
    assert first[0] not in inline.made
    done, failed, again, last = trials_in(tmp_path)
    assert again.params == running.params
    assert [trial.state for trial in (failed, again, last)] == [TrialState.FAIL] + [TrialState.COMPLETE] * 2
    inline.made = []
    compare(small_npz, tmp_path, **words)
    assert inline.made == []
    compare(small_npz, tmp_path, **words, fresh=True)
    assert len(inline.made) == 4
    assert len(trials_in(tmp_path)) == 3


def test_other_settings_are_another_search(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    words = {"search": "sgd:lr=0.1|0.2", "trials": 1}
    compare(small_npz, tmp_path, **words)
    compare(small_npz, tmp_path, **words, epochs=2)
    assert len(list(tmp_path.glob("search/*"))) == 2


def test_of_a_list_no_setting_is_tried_twice(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    compare(small_npz, tmp_path, search="sam:rho=0.1|0.2|0.3", trials=20, epochs=1)
    assert sorted(trial.params["rho"] for trial in trials_in(tmp_path)) == ["0.1", "0.2", "0.3"]


def test_whole_numbers_are_for_options_that_are_whole(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    compare(small_npz, tmp_path, search="sam:rho=0..1,every=1..3", trials=2, epochs=1, prune="none")
    for trial in trials_in(tmp_path):
        assert 0 < trial.params["rho"] < 1
        assert isinstance(trial.params["every"], int)


def test_nothing_learned_is_nothing_chosen(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Expected a setting to train, but there is none.* none beats always saying"):
        compare(small_npz, tmp_path, search="sgd:lr=1e-7|1e-8", prune="none")
    with pytest.raises(RunError, match=r"Expected a finished trial of sgd:lr=1e30.1e31, but there is none\. All"):
        compare(small_npz, tmp_path, search="sgd:lr=1e30|1e31")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"search": "sam:rho=0.1..0.2", "trials": 0}, "Expected at least one trial, but got --trials 0"),
        ({"search": "sam:rho=0.1..0.2", "prune": "hyperband"}, "Expected --prune to be asha or none, but got 'hyper"),
        ({"grid": "sam:rho=0.1|0.2", "trials": 3}, "Expected --search with --trials, but got none"),
        ({"search": "sam:roh=0.1..0.2"}, "Unknown option 'roh'"),
        ({"search": "sam:rho=-2..-1"}, "rho"),
    ],
)
def test_what_cannot_be_searched_is_refused_first(
    words: dict[str, Any], match: str, small_npz: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=match):
        compare(small_npz, tmp_path / "runs", **words)
    assert not (tmp_path / "runs").exists()


def test_optuna_keeps_its_own_voice(inline: Inline, small_npz: Path, tmp_path: Path) -> None:
    before = optuna.logging.get_verbosity()
    compare(small_npz, tmp_path, search="sgd:lr=0.1|0.2", trials=1, epochs=1)
    assert optuna.logging.get_verbosity() == before
