"""Which method can I trust? Several methods × seeds on the same data and network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from surefoot.errors import InputError, SurefootError
from surefoot.records import RunFolder
from surefoot.schema import UNTRACKED, RunSpec, Tracking
from surefoot.settings import HERE, Placement, Settings
from surefoot.studies.engine import Job, Listener, Logging, address_in, run_all


@dataclass(frozen=True)
class Comparison:
    """The runs of a comparison, and which of them failed."""

    runs: tuple[RunFolder, ...]
    failed: Mapping[Path, SurefootError]


def make_spec(method: str, *, seed: int = 0, **settings: Any) -> RunSpec:
    """Make a complete spec out of the words that people type.

    Args:
        method: For example ``"csam:gamma=2"``.
        seed: The run's seed.
        **settings: Any field of :class:`~surefoot.settings.Settings`.

    Returns:
        The spec.
    """
    return Settings(**settings).spec(method, seed=seed)


def plan(
    specs: Sequence[RunSpec],
    seeds: Sequence[int],
    out: Path,
    *,
    fresh: bool = False,
    tracking: Tracking = UNTRACKED,
    keep_every: int = 0,
    log: Logging | None = None,
    store: str | None = None,
) -> list[Job]:
    """Check all specs and lay out one run per spec and seed.

    Args:
        specs: One per method; their own seed is not used.
        seeds: The seeds, the same ones for all.
        out: Takes one folder per run.
        fresh: Make all runs anew.
        tracking: What to measure on the way; runs that did not are made anew.
        keep_every: Epochs between checkpoints that stay; 0 keeps the newest only. Finished runs stay as they are.
        log: Where to log them.
        store: Address of a folder that keeps the runs for all machines.

    Returns:
        The runs, method by method in the order given; runs that are the same are there once.

    Raises:
        InputError: If there is nothing to compare, or a spec cannot run.
    """
    from surefoot.experiment import check, folder_name  # imports torch

    if not specs or not seeds:
        raise InputError("Expected at least one method and one seed, but got none. Pass --methods and --seeds.")
    for spec in specs:
        check(spec)
    made = [replace(spec, seed=seed) for spec in specs for seed in seeds]
    named = {out / folder_name(spec): spec for spec in made}
    return [
        Job(spec, path, fresh, tracking, keep_every=keep_every, store=address_in(store, path), log=log)
        for path, spec in named.items()
    ]


def compare(jobs: Sequence[Job], *, placement: Placement = HERE, listen: Listener | None = None) -> Comparison:
    """Make the planned runs. Those that are finished already are not made again.

    Args:
        jobs: What :func:`plan` laid out.
        placement: Where they are made, and how many at once.
        listen: Called with news of every run.

    Returns:
        The finished runs in the order of the plan.
    """
    failed = run_all(jobs, placement=placement, listen=listen)
    return Comparison(tuple(RunFolder(job.path) for job in jobs if job.path not in failed), failed)
