"""From names of studies to their results: plan, run once what they share, analyse, judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.errors import InputError, SurefootError
from surefoot.records import RunFolder
from surefoot.registry import STUDIES
from surefoot.settings import HERE, Placement
from surefoot.studies._shifted import Shift
from surefoot.studies.contract import Analysis, Arm, Size, Study, Verdict, order
from surefoot.studies.engine import Job, Listener, News, address_in, run_all
from surefoot.studies.runs import Runs


@dataclass(frozen=True)
class Plan:
    """A study at a size: which run is which arm and seed."""

    name: str
    study: Study
    size: Size
    places: Mapping[tuple[str, int], Path]

    @property
    def claim(self) -> str:
        """What the study is called in tables."""
        return claim_of(self.name)


@dataclass(frozen=True)
class Result:
    """A study that was run: what it found, and the verdict."""

    plan: Plan
    runs: Runs
    analysis: Analysis
    verdict: Verdict

    def missing(self) -> set[Path]:
        """Return the runs that are still to be made: those that have neither ended nor failed."""
        failed = {(arm, seed) for arm, errors in self.runs.failed.items() for seed in errors}
        planned = {path for place, path in self.plan.places.items() if place not in failed}
        return planned - {run.path for run in self.runs.all()}


def claim_of(name: str) -> str:
    """Return what a study is called in tables: ``A4``, and one of your own by its name."""
    return name.upper() if re.fullmatch(r"[a-z]\d+", name) else name


def find_studies(names: Sequence[str]) -> dict[str, Study]:
    """Return studies by name; ``all`` stands for every one.

    Args:
        names: What was typed.

    Returns:
        Name → study, in the order given; all of them in the order of their claims.
    """
    wanted = [part.name for part in STUDIES] if "all" in names else [read_name(name) for name in names]
    return {name: STUDIES[name].build() for name in (sorted(wanted, key=order) if "all" in names else wanted)}


def read_name(text: str) -> str:
    """Return a study's name as it is registered, whatever its case; an import path is taken as it is."""
    return text if ":" in text else text.lower()


def plan_studies(
    studies: Mapping[str, Study],
    size: Size,
    out: Path,
    *,
    seeds: Sequence[int] | None = None,
    fresh: bool = False,
    store: str | None = None,
) -> tuple[list[Plan], list[Job]]:
    """Lay out all runs of all studies; runs that several need are there once, and measure what any of them asks for.

    Args:
        studies: By name.
        size: How large.
        out: Takes one folder per run.
        seeds: Which seeds; else the studies' and the arms' own.
        fresh: Make all runs anew.
        store: Address of a folder that all machines reach, for engines that need one.

    Returns:
        One plan per study, and the jobs.

    Raises:
        InputError: If an arm cannot run.
    """
    from surefoot.experiment import check, folder_name  # imports torch

    plans: list[Plan] = []
    arms: dict[Path, Arm] = {}
    shifts: dict[Path, dict[Shift, None]] = {}
    checked: set[str] = set()
    for name, study in studies.items():
        places: dict[tuple[str, int], Path] = {}
        for label, arm in study.grid(size).items():
            for seed in (arm.seeds or study.seeds_at(size)) if seeds is None else seeds:
                spec = arm.at(seed)
                path = places[label, seed] = out / folder_name(spec)
                known = arms.get(path)
                if known and (clashes := known.tracking.clashes(arm.tracking)):
                    raise InputError(
                        f"Expected studies that share a run to measure the same on the way, but {name} asks for "
                        f"{clashes[0]} and another one with other options. Run {name} alone, in a folder of its own."
                    )
                arms[path] = Arm(spec, known.tracking.joined(arm.tracking) if known else arm.tracking)
                shifts.setdefault(path, {}).update({arm.shift: None} if arm.shift else {})
            if (text := str(arm.spec)) not in checked:
                checked.add(text)
                check(arm.spec)
        plans.append(Plan(name, study, size, places))
    if not arms:
        raise InputError("Expected at least one study and one seed, but got none. Run `surefoot study list`.")
    ordered = [(path, arms[path]) for path in _ordered(plans, arms)]
    return plans, [_job(path, arm, tuple(shifts[path]), fresh, store) for path, arm in ordered]


def _ordered(plans: Sequence[Plan], arms: Mapping[Path, Arm]) -> list[Path]:
    """Order runs study by study, so that results come in one by one; within one, those on the same data together.

    A worker keeps the data that it has loaded.
    """
    found: dict[Path, None] = {}
    for plan in plans:
        paths = dict.fromkeys(plan.places.values())
        data = {path: str(arms[path].spec.data) for path in paths}
        first = {name: place for place, name in reversed(list(enumerate(data.values())))}
        found.update(dict.fromkeys(sorted(paths, key=lambda path: first[data[path]])))
    return list(found)


def _job(path: Path, arm: Arm, shifts: tuple[Shift, ...], fresh: bool, store: str | None) -> Job:
    """Keep what an earlier study asked of the same run: measuring more makes it anew, to the same bits."""
    folder = RunFolder(path)
    earlier = folder.tracking if folder.run_id is not None else arm.tracking
    asked = arm.tracking if earlier.covers(arm.tracking) else earlier.joined(arm.tracking)
    return Job(arm.spec, path, fresh, asked, store=address_in(store, path), shifts=shifts)


def run_studies(
    plans: Sequence[Plan],
    jobs: Sequence[Job],
    *,
    placement: Placement = HERE,
    listen: Listener | None = None,
    finish: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Make the runs and judge the studies.

    Args:
        plans: What :func:`plan_studies` gave.
        jobs: Likewise.
        placement: Where they are made, and how many at once.
        listen: Called with news of every run.
        finish: Called with every study's result as soon as all its runs have ended.

    Returns:
        One result per study; a run that failed is missing in it and named in ``runs.failed``.
    """
    left = {plan.name: set(plan.places.values()) for plan in plans}
    failed: dict[Path, SurefootError] = {}
    made: dict[str, Result] = {}

    def hear(news: News) -> None:
        if listen:
            listen(news)
        if news.again or not (news.done or news.error):
            return
        if news.error:
            failed[news.job.path] = news.error
        for plan in plans:
            left[plan.name].discard(news.job.path)
            if not left[plan.name] and plan.name not in made:
                made[plan.name] = judge(plan, failed)
                if finish:
                    finish(made[plan.name])

    run_all(jobs, placement=placement, listen=hear)
    return [made[plan.name] for plan in plans]


def judge(plan: Plan, failed: Mapping[Path, SurefootError] | None = None) -> Result:
    """Analyse the finished runs of a study and judge its claim."""
    arms = plan.study.grid(plan.size)
    found: dict[str, dict[int, RunFolder]] = {label: {} for label, _ in plan.places}
    errors: dict[str, dict[int, SurefootError]] = {}
    for (label, seed), path in plan.places.items():
        if failed and path in failed:
            errors.setdefault(label, {})[seed] = failed[path]
        elif _has_all(run := RunFolder(path), arms[label]):
            found[label][seed] = run
    runs = Runs(found, errors, {label: arm.shift for label, arm in arms.items() if arm.shift})
    analysis = plan.study.analyse(runs)
    return Result(plan, runs, analysis, plan.study.verdict(analysis.numbers, plan.size))


def _has_all(run: RunFolder, arm: Arm) -> bool:
    """Return whether a run is finished and has measured what an arm asks for; another study may have made it."""
    if run.done() is None or not run.tracking.covers(arm.tracking):
        return False
    return arm.shift is None or arm.shift.is_measured(run)
