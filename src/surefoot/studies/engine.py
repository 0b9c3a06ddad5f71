"""Many runs at once: what a job is, who makes it, and what happens when it fails.

An engine knows how to start a run and how to tell that it ended; ``engines/`` has one file for each. The order of
the work, the second attempt and the news are the same for all of them and live here.
"""

from __future__ import annotations

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from surefoot.errors import DivergedError, InputError, RunError, StoppedError, SurefootError
from surefoot.records import RunFolder
from surefoot.schema import CHECKPOINT_EVERY, RunSpec, Tracking
from surefoot.settings import HERE, Placement
from surefoot.studies._shifted import Shift
from surefoot.troubles import told

if TYPE_CHECKING:
    from surefoot.training import RunListener

ATTEMPTS = 2


class Logging(Protocol):
    """Where runs are logged, beside their folders; it travels to whoever makes them."""

    def __call__(self) -> RunListener:
        """Make what listens to one run."""
        ...

    def has_all(self, path: Path) -> bool:
        """Return whether the log of a finished run is complete."""
        ...


@dataclass(frozen=True)
class Job:
    """A run to be made, and where.

    Attributes:
        spec: What to run.
        path: The run folder.
        fresh: Make it anew, whatever the folder holds.
        tracking: What to measure on the way.
        checkpoint_every: Seconds between checkpoints.
        keep_every: Epochs between checkpoints that stay; 0 keeps the newest only.
        store: Address of the run folder that all machines reach, where ``path`` is not such a place itself.
        shifts: On which shifted pictures the finished network is measured.
        log: Where the run is logged; None for nowhere but its folder.
    """

    spec: RunSpec
    path: Path
    fresh: bool = False
    tracking: Tracking = field(default_factory=Tracking)
    checkpoint_every: float = CHECKPOINT_EVERY
    keep_every: int = 0
    store: str | None = None
    shifts: tuple[Shift, ...] = ()
    log: Logging | None = None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the run is finished, and measured and logged all that is asked for."""
        folder = RunFolder(self.path)
        trained = not self.fresh and folder.done() is not None and folder.tracking.covers(self.tracking)
        measured = trained and all(shift.is_measured(folder) for shift in self.shifts)
        return measured and (self.log is None or self.log.has_all(self.path))


@dataclass(frozen=True)
class News:
    """How far a job is.

    ``error`` is set when it failed, ``again`` when it is tried once more, ``stopped`` when it was not worth going on
    with and counts as done.
    """

    job: Job
    step: int = 0
    n_steps: int = 0
    loss: float | None = None
    done: bool = False
    error: SurefootError | None = None
    again: bool = False
    stopped: SurefootError | None = None


def address_in(store: str | None, path: Path) -> str | None:
    """Return the address of a run folder in a folder at an address; None where there is none."""
    return f"{store.rstrip('/')}/{path.name}" if store else None


Listener = Callable[[News], None]
OnStep = Callable[[int, int, float], None]  # steps made, steps in all, loss


def make(job: Job, path: Path, on_step: OnStep) -> None:
    """Make a run in this process and measure what is asked for; every engine's workers call this.

    Args:
        job: What to make.
        path: The run folder where this worker is.
        on_step: Called after every step.
    """
    from surefoot.experiment import run  # imports torch, which the process that hands out the work does not need

    run(
        job.spec,
        path,
        fresh=job.fresh,
        tracking=job.tracking,
        checkpoint_every=job.checkpoint_every,
        keep_every=job.keep_every,
        on_progress=on_step,
        listener=job.log() if job.log is not None else None,
    )
    for shift in job.shifts:
        shift.measure(path)


class Engine(Protocol):
    """Makes runs somewhere. Jobs are named by a number that the caller chooses."""

    @property
    def slots(self) -> int:
        """How many runs it makes at once."""
        ...

    def submit(self, number: int, job: Job) -> None:
        """Start a run; there is a free slot for it."""
        ...

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        """Return number, steps made, steps in all and loss of runs that moved; wait a moment if there are none."""
        ...

    def ended(self) -> Iterable[tuple[int, BaseException | None]]:
        """Return the runs that ended since this was last asked, with what went wrong."""
        ...

    def close(self) -> None:
        """Stop whatever still runs; what is done is on disk."""
        ...


def run_all(
    jobs: Sequence[Job], *, placement: Placement = HERE, listen: Listener | None = None
) -> dict[Path, SurefootError]:
    """Make all runs; one that fails is tried once more and does not stop the others.

    Args:
        jobs: The runs.
        placement: Where they are made, how many at once, and what each takes.
        listen: Called with news of every job.

    Returns:
        What went wrong, by run folder; empty if nothing did.
    """
    from surefoot.studies.stored import not_sent

    tell = listen or (lambda news: None)
    _warn_of_idle_gpus(jobs, placement)
    there = [job for job in jobs if job.is_done]
    done = {job.path for job in there} - not_sent(there)
    for job in jobs:
        if job.path in done:
            tell(News(job, done=True))
    todo = [job for job in jobs if job.path not in done]
    return attend(todo, len(todo), placement, tell) if todo else {}


def _warn_of_idle_gpus(jobs: Sequence[Job], placement: Placement) -> None:
    if placement.gpus_per_run and all(job.spec.device == "cpu" for job in jobs):
        warnings.warn("Each run takes a GPU and trains on the CPU. Add --device cuda.", stacklevel=3)


def attend(jobs: Iterable[Job], n_jobs: int, placement: Placement, tell: Listener) -> dict[Path, SurefootError]:
    """Make runs as they come: the next one is asked for when there is room for it.

    Args:
        jobs: The runs.
        n_jobs: How many there are, at most.
        placement: Where they are made.
        tell: Called with news of every job.

    Returns:
        What went wrong, by run folder.
    """
    engine = _open(placement, n_jobs)
    try:
        return _attend(engine, iter(jobs), tell)
    finally:
        engine.close()


def _open(placement: Placement, n_jobs: int) -> Engine:
    if placement.engine == "ray":
        from surefoot.studies.engines.ray import RayEngine

        return RayEngine(placement, n_jobs)
    from surefoot.studies.engines.local import LocalEngine

    return LocalEngine(placement.jobs, n_jobs)


def _attend(engine: Engine, jobs: Iterator[Job], tell: Listener) -> dict[Path, SurefootError]:
    known: dict[int, Job] = {}
    again, running = deque[int](), set[int]()
    attempts: Counter[int] = Counter()
    failed: dict[Path, SurefootError] = {}
    while True:
        while len(running) < engine.slots:
            if (job := next(jobs, None)) is not None:
                number = len(known)
                known[number] = job
            elif again:
                number = again.popleft()
            else:
                break
            attempts[number] += 1
            running.add(number)
            engine.submit(number, known[number])
        if not running:
            return failed
        for number, step, n_steps, loss in engine.progress():
            if number in running:
                tell(News(known[number], step, n_steps, loss))
        for number, trouble in engine.ended():
            running.discard(number)
            job, error = known[number], _readable(trouble)
            if error and attempts[number] < ATTEMPTS and not _is_certain(error):
                again.append(number)
                tell(News(job, error=error, again=True))
                continue
            if isinstance(error, StoppedError):
                tell(News(job, done=True, stopped=error))
                continue
            if error:
                failed[job.path] = error
            tell(News(job, done=error is None, error=error))


def _is_certain(error: SurefootError) -> bool:
    """Return whether a second attempt must end the same way: runs are the same bits every time."""
    return isinstance(error, InputError | DivergedError | StoppedError)


def _readable(error: BaseException | None) -> SurefootError | None:
    if error is None or isinstance(error, SurefootError):
        return error
    if isinstance(error, Exception) and (known := told(error)):
        return RunError(known[0])
    return RunError(f"The run failed with {type(error).__name__}: {error}. Run it alone with `surefoot train --debug`.")
