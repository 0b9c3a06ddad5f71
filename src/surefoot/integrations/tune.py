"""Hyperparameter search with Optuna or Ray Tune: chosen on the calibration split, judged on the test split.

A :class:`Search` is a method and its settings with gaps, ``"csam:rho={rho}"``. It gives the objective of either
package: each trial is a run folder, its value is a measure of the **calibration** split, and after every epoch the
package is asked whether the trial is worth going on with. A trial that is made again goes on from its checkpoint. The
test split has no say before :meth:`Search.judge`, which trains the chosen setting with new seeds.
"""

from __future__ import annotations

import math
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from string import Formatter
from typing import Any

from surefoot.api import ComparisonReport, Run
from surefoot.errors import DivergedError, InputError, OptionError, RunError
from surefoot.evaluate import value_of
from surefoot.experiment import folder_name, run
from surefoot.integrations._epochs import BY_EPOCH, Epochs, Hearing, Tell
from surefoot.integrations._optuna import package, suggest
from surefoot.records import RunFolder
from surefoot.registry import METRICS
from surefoot.report.grid import check_choice
from surefoot.report.page import write_page
from surefoot.report.summary import summarise
from surefoot.schema import RunSpec
from surefoot.settings import Placement, Settings, check_known
from surefoot.studies.compare import compare, plan
from surefoot.studies.engine import Job, address_in
from surefoot.studies.stored import make_stored

SETTINGS = tuple(field.name for field in fields(Settings))
_busy = threading.Lock()


class Search:
    """A method and its settings with gaps that a search fills in.

    A gap is a name in braces, in any text: ``"csam:rho={rho},gamma={gamma}"``, ``model="mlp:width={width}"``. What is
    searched under the name of a setting, such as ``lr``, needs no gap.

    Args:
        method: The method.
        out: Folder for the runs.
        choose_by: A measure of the calibration split: nll, accuracy, ece and kce are known after every epoch, others at
            the end only, so that no trial can be stopped early.
        seeds: Runs per trial, of which the mean counts; the first one decides whether to go on.
        first_seed: The first of them.
        threads: Threads of torch.
        store: Address of a folder that keeps the runs for all machines, where ``out`` is not one they share.
        **settings: Data, model, epochs and so on, as for :func:`surefoot.train`.

    Attributes:
        metric: What a trial's value is called: ``"calibration/nll"``.
        mode: ``"min"`` or ``"max"``.
        direction: The same in Optuna's words, ``"minimize"`` or ``"maximize"``.
        key: The measure that decides.
        worst: The worst value there is, of a trial that diverges.

    Raises:
        InputError: If an option is unknown, or settings cannot be chosen by the measure.

    Example:
        >>> search = Search("csam:rho={rho}", out="tuned", data="digits", epochs=3)
        >>> search.metric, search.direction
        ('calibration/nll', 'minimize')
        >>> search.spec({"rho": 0.1, "lr": 0.05}).method.label
        'csam:rho=0.1'
    """

    def __init__(
        self,
        method: str,
        *,
        out: Path | str,
        choose_by: str = "nll",
        seeds: int = 1,
        first_seed: int = 0,
        threads: int = 1,
        store: str | None = None,
        **settings: Any,
    ) -> None:
        check_known(settings, SETTINGS, "Search")
        if seeds < 1:
            raise InputError(f"Expected at least one seed per trial, but got {seeds}. Write seeds=1.")
        self._words = {"method": method, **settings}
        self._out = Path(out).resolve()  # Ray's workers are in other folders
        self.key, self._seeds, self._threads = check_choice(choose_by), range(first_seed, first_seed + seeds), threads
        self._store = store
        lower = METRICS.read(self.key)[0].facts["lower_is_better"]
        self.metric = f"calibration/{self.key}"
        self.mode, self.direction = ("min", "minimize") if lower else ("max", "maximize")
        self.worst = math.inf if lower else -math.inf
        if self.key not in BY_EPOCH:
            warnings.warn(
                f"{self.key} is known at the end of a run only, so no trial is stopped early. "
                f"To stop early, choose by {', '.join(BY_EPOCH)}.",
                stacklevel=2,
            )

    def spec(self, params: Mapping[str, Any], *, seed: int = 0) -> RunSpec:
        """Fill in the gaps.

        Args:
            params: What the search has chosen, by name, such as ``study.best_params``.
            seed: The run's seed.

        Returns:
            The spec.

        Raises:
            OptionError: If a gap is left, or a name is neither a gap nor a setting.
        """
        words = self._fill(params)
        return Settings(**{k: v for k, v in words.items() if k != "method"}).spec(str(words["method"]), seed=seed)

    def _fill(self, params: Mapping[str, Any]) -> dict[str, Any]:
        texts = [text for text in self._words.values() if isinstance(text, str)]
        gaps = {name for text in texts for _, name, _, _ in Formatter().parse(text) if name is not None}
        if left := sorted(gaps - set(params)):
            raise OptionError(
                f"Expected a value for {{{left[0]}}}, but the search has none. Add {left[0]!r} to its space."
            )
        for name in params:
            if name not in gaps and (name not in SETTINGS or name in self._words):
                raise OptionError(
                    f"Expected {name!r} to be a gap or a setting that is not fixed, but it is none. "
                    f"Write {{{name}}} where it belongs, as in csam:rho={{rho}}."
                )
        filled = {k: v.format(**params) if isinstance(v, str) else v for k, v in self._words.items()}
        return {**filled, **{name: value for name, value in params.items() if name not in gaps}}

    def optuna(self, space: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]) -> Callable[[Any], float]:
        """Make an objective for ``study.optimize``.

        A trial reports after every epoch and stops where the study's pruner says so; one that diverges is pruned too.

        Args:
            space: Optuna's distributions by name, or a function from a trial to values by name.

        Returns:
            A function from a trial to its value. Called in several threads at once it refuses: start the script
            several times with the same storage instead.
        """
        optuna = package("optuna", "surefoot[optuna]")

        def objective(trial: Any) -> float:
            if [each.name.lower() for each in trial.study.directions] != [self.direction]:
                raise InputError(
                    f"Expected a study that {self.direction}s {self.metric}, but got another one. "
                    f"Pass direction={self.direction!r} to create_study."
                )
            epoch = 0

            def tell(now: int, value: float) -> None:
                nonlocal epoch
                epoch = now
                trial.report(value, epoch)
                if trial.should_prune():
                    raise optuna.TrialPruned(f"Stopped after epoch {epoch}: {self.metric} is {value:.4g}.")

            params = space(trial) if callable(space) else {name: suggest(trial, name, space[name]) for name in space}
            trial.set_user_attr("settings", dict(params))  # a function may give more than it has drawn
            try:
                return self._run(params, tell)
            except DivergedError as error:
                trial.report(self.worst, epoch + 1)
                raise optuna.TrialPruned(str(error)) from error

        return objective

    def ray(self) -> Callable[[dict[str, Any]], None]:
        """Make a trainable for ``ray.tune.Tuner``, whose ``param_space`` names the gaps.

        It reports ``epoch`` and :attr:`metric` after every epoch; ``ASHAScheduler(time_attr="epoch")`` stops by that.
        One that diverges reports the worst value there is.

        Returns:
            A function from a trial's parameters.
        """
        package("ray.tune", "surefoot[ray]' 'ray[tune]")

        def trainable(config: dict[str, Any]) -> None:
            from ray import tune

            last = self.spec(config).epochs
            try:
                value = self._run(config, lambda epoch, value: tune.report({self.metric: value, "epoch": epoch}))
            except DivergedError:
                value = self.worst
            tune.report({self.metric: value, "epoch": last})

        return trainable

    def _run(self, params: Mapping[str, Any], tell: Tell) -> float:
        if not _busy.acquire(blocking=False):
            raise InputError(
                "Expected one trial at a time in a process, for all draw from the same random numbers, but got two. "
                "Leave n_jobs at 1 and start the script several times with the same storage."
            )
        try:
            values = []
            for seed in self._seeds:
                spec = self.spec(params, seed=seed)
                hear = Epochs(BY_EPOCH.get(self.key), spec.epochs, tell, self.worst) if seed == self._seeds[0] else None
                values.append(self._make(spec, hear))
            return fmean(values)
        finally:
            _busy.release()

    def _make(self, spec: RunSpec, hear: Epochs | None) -> float:
        path = self._out / folder_name(spec)
        if self._store is None:
            return self.value(run(spec, path, threads=self._threads, listener=hear))
        with tempfile.TemporaryDirectory() as home:
            job = Job(spec, path, store=address_in(self._store, path), log=Hearing(hear) if hear else None)
            make_stored(job, Path(home) / "run", lambda step, n_steps, loss: None)
            return self.value(RunFolder(Path(home) / "run"))

    def value(self, made: RunFolder) -> float:
        """Return what a finished run counts for."""
        value = value_of(made, self.key, split="calibration")
        if value is None:
            raise RunError(f"Expected a value of {self.metric}, but {made.path} has none. Choose by nll.")
        return value

    def judge(
        self,
        params: Mapping[str, Any],
        *,
        against: Sequence[str | RunSpec] = (),
        seeds: int = 5,
        jobs: int | None = None,
    ) -> ComparisonReport:
        """Train the chosen setting with fresh seeds and measure it on the test split, beside others.

        The search has chosen its setting by the calibration split and by its own seeds; both make its value look better
        than it is.

        Args:
            params: All that the search has chosen; of a space that is a function, ``trial.user_attrs["settings"]``.
            against: Methods with the same settings, or specs of another search; the first is the baseline.
            seeds: How many; none of them is one of the search's.
            jobs: Runs at once; else one per core.

        Returns:
            The comparison, with its page in the folder ``judged``.

        Raises:
            InputError: If the search has not tried this setting.
            RunError: If no run finished.
        """
        chosen = self.spec(params, seed=self._seeds[0])
        if RunFolder(self._out / folder_name(chosen)).done() is None:
            raise InputError(
                f"Expected a setting that the search has tried, but {self._out} has no finished run of it. "
                "Pass all that its trial had, trial.user_attrs['settings']."
            )
        words = {key: value for key, value in self._fill(params).items() if key != "method"}
        others = [Settings(**words).spec(each) if isinstance(each, str) else each for each in against]
        out = self._out / "judged"
        todo = plan([*others, chosen], range(self._seeds.stop, self._seeds.stop + seeds), out)
        made = compare(todo, placement=Placement(jobs=jobs))
        if not made.runs:
            raise RunError(f"Expected runs to judge by, but none finished. {next(iter(made.failed.values()))}")
        summary = summarise(made.runs)
        page = write_page(summary, out / "report.html")
        return ComparisonReport(tuple(map(Run, made.runs)), made.failed, summary, (), page)


def retry_interrupted(study: Any) -> int:
    """Queue the trials of an Optuna study that were running when it was killed; their runs go on from a checkpoint.

    Args:
        study: The study, on which no other process is at work.

    Returns:
        How many there are.
    """
    optuna = package("optuna", "surefoot[optuna]")
    found = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,))
    for trial in found:
        study.enqueue_trial(trial.params)
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return len(found)
