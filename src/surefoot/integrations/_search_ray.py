"""The trials of a search on a Ray cluster: Ray Tune places, retries and stops them, Optuna draws the settings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ray.tune import Callback

from surefoot.cluster_head import head_of, looked_after
from surefoot.clusters import disconnect
from surefoot.errors import RunError, StoppedError, SurefootError
from surefoot.integrations.searching import HALVING, Hunt, distributions, sampler
from surefoot.places import file_system
from surefoot.studies.engine import ATTEMPTS, Job, Listener, News
from surefoot.studies.engines.ray import go_to, join, takes_of

QUIET = {  # Ray Tune's own tables, logs and handler of Ctrl-C, after which it would go on with what it has
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
}


def try_on_ray(hunt: Hunt, study: Any, n_over: int, listen: Listener) -> dict[Path, SurefootError]:
    """Make the trials that are left on a Ray cluster.

    Args:
        hunt: The search.
        study: Optuna's study, in whose storage the trials are kept.
        n_over: How many came to an end before.
        listen: Called with news of every trial.

    Returns:
        What went wrong, by the place of the trial.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    head = head_of(join(hunt.placement))
    try:
        with warnings.catch_warnings(), looked_after(head):
            warnings.simplefilter("ignore")  # Ray's own, of things that nobody here uses
            news = _News(hunt, n_over, listen)
            _tuner(hunt, study, n_over, news).fit()
        return dict(news.failed)
    finally:
        disconnect()


def _tuner(hunt: Hunt, study: Any, n_over: int, news: Callback) -> Any:
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler
    from ray.tune.search.optuna import OptunaSearch

    search, takes = hunt.search, {kind.lower(): amount for kind, amount in takes_of(hunt.placement).items()}
    drawing = OptunaSearch(
        distributions(hunt.space),
        metric=search.metric,
        mode=search.mode,
        sampler=sampler(len(study.get_trials(deepcopy=False))),
        study_name=study.study_name,
        storage=study._storage,
    )
    stopping = ASHAScheduler(
        time_attr="epoch", max_t=hunt.epochs, grace_period=hunt.first_rung, reduction_factor=HALVING
    )
    return tune.Tuner(
        tune.with_resources(_trainable(hunt), takes),
        tune_config=tune.TuneConfig(
            metric=search.metric,
            mode=search.mode,
            search_alg=drawing,
            scheduler=stopping if hunt.prune else None,
            num_samples=hunt.n_trials - n_over,
            max_concurrent_trials=hunt.placement.jobs,
            reuse_actors=False,
        ),
        run_config=tune.RunConfig(
            name="ray",
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=ATTEMPTS - 1),
            callbacks=[news],
            **_storage(hunt),
        ),
    )


def _storage(hunt: Hunt) -> dict[str, Any]:
    """Say where Ray Tune keeps what it needs: beside the runs, at an address if they are at one."""
    if hunt.placement.store is None:
        return {"storage_path": str(hunt.folder.resolve())}
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    system, root = file_system(hunt.placement.store)
    return {"storage_path": root, "storage_filesystem": PyFileSystem(FSSpecHandler(system))}


def _trainable(hunt: Hunt) -> Callable[[dict[str, Any]], None]:
    run, fill, folder = hunt.search.ray(), hunt.space.fill, str(Path.cwd())

    def trainable(config: dict[str, Any]) -> None:
        go_to(folder)
        run(fill(config))

    return trainable


class _News(Callback):
    """Tells how far each trial is."""

    def __init__(self, hunt: Hunt, n_over: int, listen: Listener) -> None:
        self.hunt, self.listen, self.places = hunt, listen, hunt.places()[n_over:]
        self.seen: list[str] = []
        self.failed: dict[Path, SurefootError] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Keep nothing when Ray Tune keeps its own state: whoever listens is here and now."""
        return {}

    def job(self, trial: Any) -> Job:
        if trial.trial_id not in self.seen:
            self.seen.append(trial.trial_id)
        place = self.places[self.seen.index(trial.trial_id)]
        return replace(self.hunt.job(trial.config), path=place.path)

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
        epoch, value = int(result["epoch"]), float(result[self.hunt.search.metric])
        self.listen(News(self.job(trial), epoch, self.hunt.epochs, value))

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        epoch = int((trial.last_result or {}).get("epoch", self.hunt.epochs))
        early = StoppedError(f"Stopped after epoch {epoch}: others are ahead.") if epoch < self.hunt.epochs else None
        self.listen(News(self.job(trial), done=True, stopped=early))

    def on_trial_recover(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.listen(News(self.job(trial), error=_error(trial), again=True))

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        job = self.job(trial)
        self.failed[job.path] = _error(trial)
        self.listen(News(job, error=self.failed[job.path]))


def _error(trial: Any) -> SurefootError:
    """Return what went wrong with a trial, without Ray's traceback."""
    error = trial.get_pickled_error() if trial.pickled_error_file or trial.error_file else None
    cause = getattr(error, "cause", error)
    if isinstance(cause, SurefootError):
        return cause
    name = type(cause).__name__ if cause is not None else "its worker died"
    return RunError(f"Expected the trial to finish, but it failed ({name}). Run the same command again to go on.")
