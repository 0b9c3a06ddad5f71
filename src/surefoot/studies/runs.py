"""The finished runs of a study, and how numbers are read from them: by arm and seed, tuned, along training, shifted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from surefoot.errors import InputError, SurefootError
from surefoot.evaluate import kept_value, measures_of
from surefoot.records import RunFolder
from surefoot.schema import SplitName
from surefoot.studies._shifted import Shift

Found = TypeVar("Found")
BySeed = dict[int, float]
SETTING = " · "  # between the name of an arm that is tuned and one of its settings


class Runs:
    """The finished runs of a study, by arm and seed.

    Args:
        found: Finished runs.
        failed: What went wrong with the others.
        shifts: On which shifted pictures the arms were measured.

    Attributes:
        asked: Measures that were read, each a split and a key.
        own: Numbers that the study computed itself, which are kept beside them: their names.
        followed: Tracked quantities that were read.
    """

    def __init__(
        self,
        found: Mapping[str, Mapping[int, RunFolder]],
        failed: Mapping[str, Mapping[int, SurefootError]] | None = None,
        shifts: Mapping[str, Shift] | None = None,
    ) -> None:
        self.found = {arm: dict(sorted(runs.items())) for arm, runs in found.items()}
        self.failed = {arm: dict(errors) for arm, errors in (failed or {}).items() if errors}
        self.shifts = dict(shifts or {})
        self.asked: set[tuple[SplitName, str]] = set()
        self.own: set[str] = set()
        self.followed: set[str] = set()

    def __getitem__(self, arm: str) -> dict[int, RunFolder]:
        """Return an arm's runs by seed; none if all failed."""
        return self.found.get(arm, {})

    def tuned(self, *, by: str = "nll", seed_by_seed: bool = False) -> Runs:
        """Choose among the settings of every arm that has some, by a metric on the calibration split.

        Args:
            by: The metric, whose smallest value is chosen: its mean over the seeds.
            seed_by_seed: Choose for each seed on its own, which lets chance choose as well.

        Returns:
            The runs with one arm in place of ``arm · setting`` for each, and all others as they are.
        """
        groups: dict[str, list[str]] = {}
        for label in self.found:
            groups.setdefault(label.partition(SETTING)[0], []).append(label)
        choose = self._chosen_by_seed if seed_by_seed else self._chosen
        found = {arm: choose(labels, by) for arm, labels in groups.items()}
        shifts = {arm: self.shifts[labels[0]] for arm, labels in groups.items() if labels[0] in self.shifts}
        return self.with_arms(found, shifts)

    def with_arms(self, found: Mapping[str, Mapping[int, RunFolder]], shifts: Mapping[str, Shift]) -> Runs:
        """Return other arms made of the same runs; what is read of them counts as read of these."""
        made = Runs(found, self.failed, shifts)
        made.asked, made.own, made.followed = self.asked, self.own, self.followed
        return made

    def _chosen(self, labels: Sequence[str], by: str) -> dict[int, RunFolder]:
        """Return the runs of the best setting at the seeds that all have; those that fail more than others are out."""
        if len(labels) == 1:
            return self[labels[0]]
        fewest = min(len(self.failed.get(label, {})) for label in labels)
        left = [label for label in labels if len(self.failed.get(label, {})) == fewest]
        scores = {label: self.measure(label, by, split="calibration") for label in left}
        seeds = shared_seeds(list(scores.values()))
        best = min(left, key=lambda label: sum(scores[label][seed] for seed in seeds))
        return {seed: self[best][seed] for seed in seeds}

    def _chosen_by_seed(self, labels: Sequence[str], by: str) -> dict[int, RunFolder]:
        """Return the best setting's run of every seed; one that failed is out, one that is not made yet stops it."""
        if len(labels) == 1:
            return self[labels[0]]
        scores = {label: self.measure(label, by, split="calibration") for label in labels}
        chosen = {}
        for seed in sorted({seed for label in labels for seed in self[label]}):
            left = [label for label in labels if seed not in self.failed.get(label, {})]
            if all(seed in scores[label] for label in left):
                chosen[seed] = self[min(left, key=lambda label: scores[label][seed])][seed]
        return chosen

    def measure(self, arm: str, metric: str, *, calibrator: str | None = None, split: SplitName = "test") -> BySeed:
        """Read a metric of an arm's finished networks, by seed."""
        key = f"{metric}@{calibrator}" if calibrator else metric
        self.asked.add((split, key))
        found = {seed: _measure(run, key, split) for seed, run in self[arm].items()}
        return {seed: value for seed, value in found.items() if value is not None}

    def compute(self, arm: str, name: str, compute: Callable[[RunFolder], float]) -> BySeed:
        """Compute a number of an arm's test predictions that is no metric, once: the run keeps it.

        Args:
            arm: Which.
            name: What it is kept as.
            compute: From a run to the number.

        Returns:
            By seed.

        Raises:
            InputError: If a run neither holds it nor has predictions.
        """
        self.own.add(name)
        return {seed: _known(kept_value(run, name, compute), run, name) for seed, run in self[arm].items()}

    def along(self, arms: Sequence[str], metric: str, *, split: SplitName = "test") -> dict[int, list[float]]:
        """Read a metric arm by arm, by seed: those seeds that every arm has."""
        found = [self.measure(arm, metric, split=split) for arm in arms]
        return {seed: [each[seed] for each in found] for seed in shared_seeds(found)}

    def series(self, arm: str, *keys: str) -> dict[int, dict[int, tuple[float, ...]]]:
        """Read tracked quantities of an arm, by seed and step: those steps at which all of them were measured."""
        self.followed.update(keys)
        return {seed: _series(run, keys) for seed, run in self[arm].items()}

    def last(self, arm: str, key: str) -> BySeed:
        """Read a tracked quantity at the end of training, by seed."""
        found = {seed: list(steps.values()) for seed, steps in self.series(arm, key).items()}
        return {seed: values[-1][0] for seed, values in found.items() if values}

    def shifted(
        self,
        arm: str,
        metric: str,
        *,
        corruption: str | None = None,
        severity: int | None = None,
        ood: str | None = None,
    ) -> BySeed:
        """Average a metric over shifted pictures, by seed; what is not said is all corruptions and all severities."""
        part = self.shifts[arm].part(corruption=corruption, severity=severity, ood=ood)
        return {seed: _known(part.mean(run, metric), run, f"{metric} under shift") for seed, run in self[arm].items()}

    def all(self) -> list[RunFolder]:
        """Return all finished runs, arm by arm."""
        return [run for runs in self.found.values() for run in runs.values()]


def shared_seeds(values: Sequence[BySeed]) -> list[int]:
    """Return the seeds that all have, in the order of the first."""
    return [seed for seed in (values[0] if values else {}) if all(seed in each for each in values)]


def _measure(run: RunFolder, key: str, split: SplitName) -> float | None:
    """Read a measure, which may have no value; that a run cannot say is another thing."""
    found: float | None = _known(measures_of(run, [key], split=split).get(key), run, key)["value"]
    return found


def _known(found: Found | None, run: RunFolder, key: str) -> Found:
    if found is None:
        raise InputError(
            f"Expected {run.path.name} to hold {key}, but it was taken over without it, and without predictions to "
            "compute it from. Choose another --out and drop --reuse, so that the run is made anew."
        )
    return found


def _series(run: RunFolder, keys: Sequence[str]) -> dict[int, tuple[float, ...]]:
    seen: dict[int, dict[str, float]] = {}
    for record in run.tracked():
        for key in keys:
            if record.get(key) is not None:
                seen.setdefault(record["step"], {})[key] = record[key]
    return {step: tuple(at[key] for key in keys) for step, at in sorted(seen.items()) if len(at) == len(keys)}
