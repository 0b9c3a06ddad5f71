"""Many runs at once: what a job is, who makes it, and what happens when it fails.

An engine knows how to start a run and how to tell that it ended; ``engines/`` has one file for each. The order of
the work, the second attempt and the news are the same for all of them and live here.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from surefoot.errors import DivergedError, InputError, RunError, SurefootError
from surefoot.records import RunFolder
from surefoot.schema import CHECKPOINT_EVERY, RunSpec, Tracking
from surefoot.studies._shifted import Shift

if TYPE_CHECKING:
    from surefoot.training import RunListener

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")
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
    """How far a job is. ``error`` is set when it failed, ``again`` when it is tried once more."""

    job: Job
    step: int = 0
    n_steps: int = 0
    loss: float | None = None
    done: bool = False
    error: SurefootError | None = None
    again: bool = False


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
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    listen: Listener | None = None,
    engine: EngineName = "local",
) -> dict[Path, SurefootError]:
    """Make all runs; one that fails is tried once more and does not stop the others.

    Args:
        jobs: The runs.
        workers: How many at once; else as many as there are cores.
        listen: Called with news of every job.
        engine: ``local`` for processes on this machine, ``ray`` for the tasks of a Ray cluster.

    Returns:
        What went wrong, by run folder; empty if nothing did.
    """
    tell = listen or (lambda news: None)
    todo = [job for job in jobs if not job.is_done]
    for job in jobs:
        if job not in todo:
            tell(News(job, done=True))
    if not todo:
        return {}
    opened = _open(engine, workers, len(todo))
    try:
        return _attend(opened, todo, tell)
    finally:
        opened.close()


def _open(name: EngineName, workers: int | None, n_jobs: int) -> Engine:
    if name == "ray":
        from surefoot.studies.engines.ray import RayEngine

        return RayEngine(workers)
    from surefoot.studies.engines.local import LocalEngine

    return LocalEngine(workers, n_jobs)


def _attend(engine: Engine, todo: Sequence[Job], tell: Listener) -> dict[Path, SurefootError]:
    waiting, running = deque(range(len(todo))), set[int]()
    attempts: Counter[int] = Counter()
    failed: dict[Path, SurefootError] = {}
    while waiting or running:
        while waiting and len(running) < engine.slots:
            number = waiting.popleft()
            attempts[number] += 1
            running.add(number)
            engine.submit(number, todo[number])
        for number, step, n_steps, loss in engine.progress():
            if number in running:
                tell(News(todo[number], step, n_steps, loss))
        for number, trouble in engine.ended():
            running.discard(number)
            job, error = todo[number], _readable(trouble)
            if error and attempts[number] < ATTEMPTS and not _is_certain(error):
                waiting.append(number)
                tell(News(job, error=error, again=True))
                continue
            if error:
                failed[job.path] = error
            tell(News(job, done=error is None, error=error))
    return failed


def _is_certain(error: SurefootError) -> bool:
    """Return whether a second attempt must end the same way: runs are the same bits every time."""
    return isinstance(error, InputError | DivergedError)


def _readable(error: BaseException | None) -> SurefootError | None:
    if error is None or isinstance(error, SurefootError):
        return error
    return RunError(f"The run failed with {type(error).__name__}: {error}. Run it alone with `surefoot train --debug`.")
