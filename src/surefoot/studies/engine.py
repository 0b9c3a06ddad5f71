"""Many runs at once on this machine: a pool of processes with one thread each.

Two single-threaded processes are faster than one with two threads on networks of this size.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.errors import RunError, SurefootError
from surefoot.records import RunFolder
from surefoot.schema import RunSpec, Tracking


@dataclass(frozen=True)
class Job:
    """A run to be made, and where."""

    spec: RunSpec
    path: Path
    fresh: bool = False
    tracking: Tracking = field(default_factory=Tracking)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the run is finished and measured all that is asked for."""
        folder = RunFolder(self.path)
        return not self.fresh and folder.done() is not None and folder.tracking.covers(self.tracking)


@dataclass(frozen=True)
class News:
    """How far a job is. ``error`` is set when it failed."""

    job: Job
    step: int = 0
    n_steps: int = 0
    loss: float | None = None
    done: bool = False
    error: SurefootError | None = None


Listener = Callable[[News], None]


def run_all(
    jobs: Sequence[Job], *, workers: int | None = None, listen: Listener | None = None
) -> dict[Path, SurefootError]:
    """Make all runs; one that fails does not stop the others.

    Args:
        jobs: The runs.
        workers: How many at once; else one per core.
        listen: Called with news of every job.

    Returns:
        What went wrong, by run folder; empty if nothing did.
    """
    tell = listen or (lambda news: None)
    failed: dict[Path, SurefootError] = {}
    todo = [job for job in jobs if not job.is_done]
    for job in jobs:
        if job not in todo:
            tell(News(job, done=True))
    if not todo:
        return failed
    workers = min(len(todo), workers or os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        inbox = manager.Queue()
        pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start, initargs=(inbox,))
        try:
            waiting = {pool.submit(_work, index, job): job for index, job in enumerate(todo)}
            _attend(waiting, todo, inbox, tell, failed)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list((getattr(pool, "_processes", None) or {}).values()):
                process.terminate()  # only matters when interrupted: what is done is on disk
    return failed


def _attend(
    waiting: dict[Future[None], Job], todo: Sequence[Job], inbox: Any, tell: Listener, failed: dict[Path, SurefootError]
) -> None:
    while waiting:
        try:
            index, step, n_steps, loss = inbox.get(timeout=0.1)
            tell(News(todo[index], step, n_steps, loss))
        except queue.Empty:
            pass
        for future in [future for future in waiting if future.done()]:
            job = waiting.pop(future)
            error = _error_of(future)
            if error:
                failed[job.path] = error
            tell(News(job, done=error is None, error=error))


def _error_of(future: Future[None]) -> SurefootError | None:
    error = future.exception()
    if error is None or isinstance(error, SurefootError):
        return error
    if isinstance(error, BrokenProcessPool):
        return RunError(
            "Expected the worker process to finish, but it was killed. Run the same command again to go on."
        )
    return RunError(f"The run failed with {type(error).__name__}: {error}. Run it alone with `surefoot train --debug`.")


_inbox: Any = None


def _start(inbox: Any) -> None:
    global _inbox
    _inbox = inbox


def _work(index: int, job: Job) -> None:
    from surefoot.experiment import run  # imports torch, which the parent process does not need

    last = 0.0

    def on_progress(step: int, n_steps: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.2 or step == n_steps:
            last = now
            _inbox.put((index, step, n_steps, loss))

    run(job.spec, job.path, fresh=job.fresh, tracking=job.tracking, on_progress=on_progress)
