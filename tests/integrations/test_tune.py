"""Searches with the packages themselves: by the calibration split, stopped early where told, gone on with."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import surefoot as sf
from surefoot.errors import InputError, OptionError
from surefoot.experiment import folder_name
from surefoot.integrations import tune as tuning
from surefoot.integrations.tune import Search, retry_interrupted
from surefoot.records import RunFolder
from tests.blocks import blocks_of

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
SPACE = {"rho": FloatDistribution(0.01, 0.5, log=True), "lr": CategoricalDistribution([0.01, 0.1])}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture
def search(small_npz: Path, tmp_path: Path) -> Search:
    return make(small_npz, tmp_path)


def make(data: Path, out: Path, **more: Any) -> Search:
    words = {"data": f"npz:{data}", "model": "mlp:width=8,depth=1", "epochs": 3, "batch_size": 30, **more}
    return Search("sam:rho={rho}", out=out / "runs", **words)


def by_epoch(folder: Path, key: str = "calibration/loss") -> dict[int, float]:
    records = [record for record in RunFolder(folder).steps() if record.get("tracker") == "quality"]
    return {record["epoch"]: record[key] for record in records}


def test_a_trial_is_a_run_and_its_value_is_of_the_calibration_split(search: Search, tmp_path: Path) -> None:
    study = optuna.create_study(direction=search.direction, sampler=optuna.samplers.RandomSampler(0))
    study.optimize(search.optuna(SPACE), n_trials=2)
    for trial in study.trials:
        spec = search.spec(trial.params)
        made = sf.load_run(tmp_path / "runs" / folder_name(spec))
        assert trial.value == made.measure("nll", split="calibration") != made.measure("nll")
        assert made.spec.method.optimizer.options["rho"] == trial.params["rho"]
        assert made.spec.method.options["lr"] == trial.params["lr"]
        told = by_epoch(made.path)
        assert trial.intermediate_values == {1: told[1], 2: told[2]}  # the last one is the value


def test_a_trial_stops_where_the_pruner_says_so(small_npz: Path, tmp_path: Path) -> None:
    search = make(small_npz, tmp_path, choose_by="accuracy")
    pruner = optuna.pruners.ThresholdPruner(lower=1.1, n_warmup_steps=2)  # nothing is ever so good
    study = optuna.create_study(direction=search.direction, pruner=pruner)
    study.optimize(search.optuna({"rho": FloatDistribution(0.1, 0.1)}), n_trials=1)
    (trial,) = study.trials
    assert trial.state is TrialState.PRUNED
    assert list(trial.intermediate_values) == [1, 2]
    assert RunFolder(tmp_path / "runs" / folder_name(search.spec(trial.params))).done() is None


def test_a_trial_that_diverges_is_pruned_as_the_worst(search: Search) -> None:
    study = optuna.create_study(direction=search.direction)
    study.optimize(search.optuna(lambda trial: {"rho": 0.1, "lr": 1e30}), n_trials=1)
    (trial,) = study.trials
    assert trial.state is TrialState.PRUNED
    assert float("inf") in trial.intermediate_values.values()


class Killed(BaseException):
    """In place of a kill, which no handler of the study's sees."""


def test_a_search_that_was_killed_goes_on(small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second epoch: the trial comes again, its run goes on from a checkpoint, and all its epochs are told."""
    search, storage = make(small_npz, tmp_path), f"sqlite:///{tmp_path}/study.db"
    real, starts = tuning.run, []

    def stop(step: int, n_steps: int, loss: float) -> None:
        if step == 5:
            raise Killed

    def killed(*words: Any, **more: Any) -> Any:
        return real(*words, **more, checkpoint_every=0, on_progress=stop)

    def watched(*words: Any, **more: Any) -> Any:
        return real(*words, **more, on_progress=lambda step, n_steps, loss: starts.append(step))

    study = optuna.create_study(study_name="a", storage=storage, direction=search.direction)
    trial = study.ask()  # as optimize does, which would mark the trial as failed; a kill does not
    with monkeypatch.context() as patch:
        patch.setattr(tuning, "run", killed)
        with pytest.raises(Killed):
            search.optuna(SPACE)(trial)
    again = optuna.load_study(study_name="a", storage=storage)
    assert retry_interrupted(again) == 1
    monkeypatch.setattr(tuning, "run", watched)
    again.optimize(search.optuna(SPACE), n_trials=1)
    failed, done = again.trials
    assert (failed.state, done.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert done.params == failed.params
    assert starts[0] == 5  # step 4 was saved
    assert list(done.intermediate_values) == [1, 2]
    alone = make(small_npz, tmp_path / "alone")
    assert alone._run(done.params, lambda epoch, value: None) == done.value


def test_several_seeds_count_by_their_mean(small_npz: Path, tmp_path: Path) -> None:
    search = make(small_npz, tmp_path, seeds=2, epochs=1)
    study = optuna.create_study(direction=search.direction)
    study.optimize(search.optuna({"rho": FloatDistribution(0.1, 0.1)}), n_trials=1)
    made = [tmp_path / "runs" / folder_name(search.spec({"rho": 0.1}, seed=seed)) for seed in (0, 1)]
    values = [sf.load_run(path).measure("nll", split="calibration") for path in made]
    assert study.best_value == pytest.approx(sum(values) / 2)


def test_the_chosen_setting_is_judged_on_test_with_fresh_seeds(small_npz: Path, tmp_path: Path) -> None:
    search = make(small_npz, tmp_path, epochs=1, seeds=2)
    study = optuna.create_study(direction=search.direction)
    study.optimize(search.optuna(lambda trial: {"rho": trial.suggest_float("rho", 0.1, 0.2), "lr": 0.05}), n_trials=1)
    with pytest.raises(InputError, match=r"Expected a setting that the search has tried, but .* has no finished run"):
        search.judge(study.best_params)  # without the learning rate, which the function gave and nobody drew
    chosen = study.best_trial.user_attrs["settings"]
    found = search.judge(chosen, against=["sgd"], seeds=1, jobs=1)
    assert found.runs[1].spec == search.spec(chosen, seed=2)
    assert [(run.spec.method.name, run.spec.seed) for run in found.runs] == [("sgd", 2), ("sam", 2)]
    assert found.page == tmp_path / "runs" / "judged" / "report.html"
    assert "test" in str(found)


def test_two_trials_at_once_are_refused(search: Search) -> None:
    """All networks of a process draw from the same generators."""
    inside, told = threading.Event(), threading.Event()

    def wait(epoch: int, value: float) -> None:
        inside.set()
        told.wait()

    other = threading.Thread(target=search._run, args=({"rho": 0.1}, wait))
    other.start()
    inside.wait()
    try:
        with pytest.raises(InputError, match=r"Expected one trial at a time in a process.*same storage"):
            search._run({"rho": 0.2}, wait)
    finally:
        told.set()
        other.join()


def test_what_does_not_fit_is_refused(small_npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = make(small_npz, tmp_path)
    with pytest.raises(OptionError, match=r"Expected a value for \{rho\}, but the search has none"):
        search.spec({"lr": 0.1})
    with pytest.raises(OptionError, match=r"Expected 'gamma' to be a gap or a setting.*Write \{gamma\}"):
        search.spec({"rho": 0.1, "gamma": 2})
    with pytest.raises(OptionError, match="Expected 'epochs' to be a gap or a setting that is not fixed"):
        search.spec({"rho": 0.1, "epochs": 2})
    with pytest.raises(OptionError, match=r"Unknown option 'epoch' for Search. Did you mean 'epochs'"):
        Search("sgd", out=tmp_path, epoch=3)
    with pytest.raises(InputError, match="Expected to choose by one metric"):
        make(small_npz, tmp_path, choose_by="ece@temperature")
    with pytest.warns(UserWarning, match="brier is known at the end of a run only"):
        make(small_npz, tmp_path, choose_by="brier")
    wrong = optuna.create_study(direction="maximize")
    with pytest.raises(InputError, match="Expected a study that minimizes calibration/nll"):
        wrong.optimize(search.optuna(SPACE), n_trials=1)
    study = optuna.create_study(direction="minimize")
    with pytest.raises(InputError, match=r"Expected a distribution of Optuna for 'rho', but got 0.1"):
        study.optimize(search.optuna({"rho": 0.1}), n_trials=1)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"Expected optuna to be installed.*pip install 'surefoot\[optuna\]'"):
        search.optuna(SPACE)


def test_gaps_may_be_anywhere(small_npz: Path, tmp_path: Path) -> None:
    search = Search("csam:gamma={gamma}", out=tmp_path, model="mlp:width={width}", data=f"npz:{small_npz}")
    spec = search.spec({"gamma": 2, "width": 9, "weight_decay": 0.0, "batch_size": 16})
    assert (spec.method.optimizer.options["gamma"], spec.model.options["width"], spec.batch_size) == (2, 9, 16)
    study = optuna.create_study()
    params = {name: tuning.suggest(study.ask(), name, IntDistribution(3, 9, step=3)) for name in ("gamma", "width")}
    assert set(params.values()) <= {3, 6, 9}


@pytest.fixture
def ray_tune(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("pandas")
    pytest.importorskip("ray.tune", reason="Ray Tune is not installed: pip install 'ray[tune]'")
    import ray

    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's own 15 starves its workers on a busy machine
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "0")
    ray.init(
        address="local",  # not one that another test has left running
        num_cpus=1,
        include_dashboard=False,
        object_store_memory=80_000_000,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"
SMALL = {  # the page's search, made small: one setting that learns, and then one that does not
    'out="/shared/tuned", data="digits", epochs=20': "out=OUT, **WORDS",
    "tune.loguniform(0.02, 0.5)": "0.05",
    "tune.loguniform(0.01, 0.3)": "tune.grid_search([0.1, 1e-6])",
    "num_samples=20": "max_concurrent_trials=1",
    "max_t=20)": "max_t=3, reduction_factor=2)",
    "\n    ),\n)\nbest": "\n    ),\n    run_config=tune.RunConfig(storage_path=RAY, verbose=0),\n)\nbest",
    "tuner.fit().get_best_result()": "(results := tuner.fit()).get_best_result()",
    'print(search.judge(best.config, against=["sgd"]))': "",
}


@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("ray_tune")
def test_the_page_on_ray_tune_stops_trials_by_epoch(small_npz: Path, tmp_path: Path) -> None:
    (code,) = (block.code for block in blocks_of(PAGE) if "ray" in block.code and block.language == "python")
    for old, new in SMALL.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    words = {"data": f"npz:{small_npz}", "model": "mlp:width=8,depth=1", "epochs": 3, "batch_size": 30}
    space = {"OUT": tmp_path / "runs", "RAY": str(tmp_path / "ray"), "WORDS": words}
    exec(compile(code, str(PAGE), "exec"), space)
    search, best, results = space["search"], space["best"], space["results"]
    assert not results.errors
    assert best.config["lr"] == 0.1
    made = sf.load_run(tmp_path / "runs" / folder_name(search.spec(best.config)))
    assert best.metrics["calibration/nll"] == made.measure("nll", split="calibration")
    assert {result.config["lr"]: result.metrics["epoch"] for result in results} == {0.1: 3, 1e-6: 1}
