"""The search behind ``surefoot compare --search``: drawn by Optuna, stopped early by successive halving (ASHA).

On this machine Optuna does both. On a Ray cluster Ray Tune does, asking Optuna what to try next. Either way a trial is
a run folder and all trials are kept in one file, so that the same search goes on where it was interrupted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefoot.errors import DivergedError, InputError, StoppedError, SurefootError
from surefoot.experiment import folder_name
from surefoot.integrations._epochs import BY_EPOCH, Epochs
from surefoot.integrations._optuna import package
from surefoot.integrations.tune import Search, retry_interrupted
from surefoot.records import RunFolder
from surefoot.records.remote import download, fetch_file, remove, send_file
from surefoot.settings import Placement
from surefoot.space import Choice, Interval, Space
from surefoot.studies.engine import Job, Listener, News, address_in, attend

JOURNAL = "trials.log"
HALVING = 3  # of the settings that reach a rung, one in three goes on


@dataclass(frozen=True)
class Trials:
    """What a search has tried.

    Attributes:
        runs: The runs that were finished.
        stopped: How many were stopped early, or diverged.
        failed: What went wrong, by run folder.
    """

    runs: tuple[RunFolder, ...]
    stopped: int
    failed: dict[Path, SurefootError]


@dataclass(frozen=True)
class Hunt:
    """A search that is to be made.

    Attributes:
        search: Gives specs and values.
        space: What may be chosen.
        folder: Takes the run folders and the file of trials.
        trials: How many settings are tried; of a space of lists, each at most once.
        prune: Whether hopeless settings are stopped early.
        placement: Where the runs are made.
        seed: Of every trial.
        epochs: Of every trial.
    """

    search: Search
    space: Space
    folder: Path
    trials: int
    prune: bool
    placement: Placement
    seed: int
    epochs: int

    @property
    def n_trials(self) -> int:
        """How many settings are tried."""
        every = self.space.settings
        return self.trials if every is None else min(self.trials, len(every))

    @property
    def first_rung(self) -> int:
        """Epochs after which the first ones are stopped."""
        return max(1, self.epochs // HALVING**2)

    def job(self, params: dict[str, Any], log: Any = None) -> Job:
        """Return the run of a trial."""
        spec = self.search.spec(self.space.fill(params), seed=self.seed)
        path = self.folder / folder_name(spec)
        return Job(spec, path, store=address_in(self.placement.store, path), log=log)

    def places(self) -> list[Job]:
        """Return one job per trial for whoever shows how far they are; what each tries is not known yet."""
        any_setting = {
            name: gap.words[0] if isinstance(gap, Choice) else gap.low for name, gap in self.space.gaps.items()
        }
        first = self.job(any_setting)
        return [replace(first, path=self.folder / f"trial {number}") for number in range(self.n_trials)]


def make_trials(hunt: Hunt, listen: Listener) -> Trials:
    """Make a search, or go on with it.

    Args:
        hunt: The search.
        listen: Called with news of every trial, whose job has the path that :meth:`Hunt.places` gave it.

    Returns:
        All trials, those of before too.

    Raises:
        InputError: If a package is missing, or no setting can run.
    """
    optuna = package("optuna", "surefoot[optuna]")
    journal = hunt.folder / JOURNAL
    with RunFolder(hunt.folder).locked(), _quiet(optuna):
        if hunt.placement.store and not journal.exists():  # made on another machine
            fetch_file(hunt.placement.store, journal)
        study = open_study(hunt.folder, hunt.search.direction, _pruner(optuna, hunt))
        retry_interrupted(study)
        _queue(study, hunt)
        over = _over(study)
        for place, trial in zip(hunt.places(), over, strict=False):
            listen(News(replace(hunt.job(trial.params), path=place.path), done=True))
        if hunt.n_trials <= len(over):
            failed: dict[Path, SurefootError] = {}
        elif hunt.placement.engine == "ray":
            package("ray.tune", "surefoot[ray]' 'ray[tune]")
            from surefoot.integrations._search_ray import try_on_ray

            failed = try_on_ray(hunt, study, len(over), listen)
        else:
            failed = _try_here(hunt, study, len(over), listen)
        if hunt.placement.store:
            send_file(journal, hunt.placement.store)
        over = _over(study)
        runs = tuple(run for run in map(RunFolder, _bring(hunt, over)) if run.done() is not None)
        return Trials(runs, len(over) - len(runs), failed)


def _bring(hunt: Hunt, trials: Sequence[Any]) -> list[Path]:
    """Return the run folders of trials; what was made on another machine is brought here."""
    jobs = {job.path: job for job in (hunt.job(trial.params) for trial in trials)}
    for job in jobs.values():
        if job.store and RunFolder(job.path).done() is None:
            download(job.store, job.path)
    return list(jobs)


def open_study(folder: Path, direction: Any, pruner: Any = None) -> Any:
    """Open the file of trials; it is made if there is none."""
    from optuna import create_study
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    return create_study(study_name="search", storage=storage, direction=direction, pruner=pruner, load_if_exists=True)


def _queue(study: Any, hunt: Hunt) -> None:
    """Of a space of lists, queue the settings themselves: all, or some drawn without replacement."""
    every = hunt.space.settings
    if every is not None:
        drawn = every if hunt.trials >= len(every) else random.Random(0).sample(every, len(every))[: hunt.trials]
        for setting in drawn:
            study.enqueue_trial(setting, skip_if_exists=True)


def distributions(space: Space) -> dict[str, Any]:
    """Return a space in Optuna's words."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    def one(gap: Interval | Choice) -> Any:
        if isinstance(gap, Choice):
            return CategoricalDistribution(gap.words)
        if gap.is_whole:
            return IntDistribution(int(gap.low), int(gap.high), log=gap.is_log)
        return FloatDistribution(gap.low, gap.high, log=gap.is_log)

    return {name: one(gap) for name, gap in space.gaps.items()}


def sampler(n_trials: int) -> Any:
    """Return what draws the next setting; its seed is the number of the trial, so that a search can go on."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=n_trials)


def _over(study: Any) -> list[Any]:
    """Return the trials that came to an end: finished, or stopped early."""
    from optuna.trial import TrialState

    return list(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED)))


def _pruner(optuna: Any, hunt: Hunt) -> Any:
    if not hunt.prune:
        return optuna.pruners.NopPruner()
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=hunt.first_rung, reduction_factor=HALVING)


def _try_here(hunt: Hunt, study: Any, n_over: int, listen: Listener) -> dict[Path, SurefootError]:
    from optuna.trial import TrialState

    space, places, asked = distributions(hunt.space), hunt.places(), dict[Path, tuple[Any, Path]]()

    def draw() -> Iterator[Job]:
        for number in range(n_over, hunt.n_trials):
            study.sampler = sampler(len(study.get_trials(deepcopy=False)))
            trial = study.ask(space)
            job = hunt.job(trial.params, Reporter(hunt, trial._trial_id))
            if job.path in asked:  # drawn before, and perhaps still running
                study.tell(trial, state=TrialState.FAIL)
                listen(News(replace(job, path=places[number].path), done=True))
                continue
            asked[job.path] = trial, places[number].path
            yield job

    def hear(news: News) -> None:
        trial, place = asked[news.job.path]
        listen(replace(news, job=replace(news.job, path=place)))
        if news.again or not (news.done or news.error):
            return
        if news.stopped:
            study.tell(trial, state=TrialState.PRUNED)
        elif news.done:
            study.tell(trial, hunt.search.value(RunFolder(news.job.path)))
        elif isinstance(news.error, DivergedError):
            trial.report(hunt.search.worst, hunt.epochs)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, state=TrialState.FAIL)
        if isinstance(news.error, InputError):  # the others would end the same way
            raise news.error

    failed = attend(draw(), hunt.n_trials - n_over, hunt.placement, hear)
    return {path: error for path, error in failed.items() if not isinstance(error, DivergedError)}


@dataclass(frozen=True)
class Reporter:
    """Tells Optuna how a trial does after every epoch, where the run is made, and stops it if Optuna says so."""

    hunt: Hunt
    trial: int

    def __call__(self) -> Epochs:
        """Make what listens to the run."""
        import optuna
        from optuna.trial import Trial

        search = self.hunt.search
        with _quiet(optuna):
            study = open_study(self.hunt.folder, search.direction, _pruner(optuna, self.hunt))
        trial = Trial(study, self.trial)
        known = dict(study.trials[trial.number].intermediate_values)

        def tell(epoch: int, value: float) -> None:
            if epoch not in known:  # a run that goes on tells again what it has told before
                trial.report(value, epoch)
            if trial.should_prune():
                raise StoppedError(f"Stopped after epoch {epoch}: {search.metric} is {value:.4g}, others are ahead.")

        return Epochs(BY_EPOCH.get(search.key), self.hunt.epochs, tell, search.worst)

    def has_all(self, path: Path) -> bool:
        """Return whether nothing is left to tell: of a finished run, its value is read from its folder."""
        return True


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna's own account of every trial off the terminal."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def forget_trials(hunts: Sequence[Hunt]) -> None:
    """Begin searches anew: what they have tried is removed, nothing else."""
    for hunt in hunts:
        for run in hunt.folder.glob("*/spec.json"):
            RunFolder(run.parent).clear()
        (hunt.folder / JOURNAL).unlink(missing_ok=True)
        if hunt.placement.store:
            remove(hunt.placement.store)
