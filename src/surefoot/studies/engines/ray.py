"""Runs as tasks of a Ray cluster: ``ray start --head`` on one machine, ``ray start --address …`` on the others.

Run folders lie on a path that all machines share. Where there is none, ``store`` is an address that they all reach:
a worker brings the folder home, runs, and sends it back on the way and at the end, so that another machine can go on.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from surefoot.errors import InputError, RunError, SurefootError
from surefoot.records.remote import download, upload
from surefoot.studies.engine import Job

PAUSE = 0.2  # seconds to wait for news
SEND_EVERY = 30.0  # seconds between copies of a running run to the store


class RayEngine:
    """One Ray task per run, with one core each.

    Args:
        workers: How many runs at once; else as many as the cluster has cores.

    Raises:
        InputError: If Ray is not installed or no cluster can be reached.
    """

    def __init__(self, workers: int | None) -> None:
        self._ray = _connect()
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        self.slots = workers or max(1, cores)
        self._inbox = self._ray.remote(num_cpus=0)(_Inbox).remote()
        # A worker that dies is this project's to deal with: the second attempt is counted and told like any other.
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_work)
        self._running: dict[Any, tuple[int, Job]] = {}

    def submit(self, number: int, job: Job) -> None:
        """Start a task."""
        self._running[self._task.remote(number, job, self._inbox)] = number, job

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        """Empty the inbox."""
        found: list[tuple[int, int, int, float]] = self._ray.get(self._inbox.take.remote())
        if not found:
            time.sleep(PAUSE)
        return found

    def ended(self) -> Iterable[tuple[int, BaseException | None]]:
        """Ask which tasks ended, and bring home what they left in the store."""
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [self._end(task) for task in ready]

    def _end(self, task: Any) -> tuple[int, BaseException | None]:
        number, job = self._running.pop(task)
        try:
            self._ray.get(task)
            if job.store:
                download(job.store, job.path)
        except self._ray.exceptions.RayTaskError as error:
            return number, error.cause if isinstance(error.cause, Exception) else error
        except self._ray.exceptions.RayError as error:
            return number, RunError(
                f"Expected the Ray worker to finish, but it died ({type(error).__name__}). "
                "Run the same command again to go on."
            )
        except SurefootError as error:
            return number, error
        return number, None

    def close(self) -> None:
        """Stop what still runs and leave the cluster."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._ray.kill(self._inbox)
        self._ray.shutdown()


class _Inbox:
    """Holds news until the driver asks; lives in the cluster."""

    def __init__(self) -> None:
        self._news: dict[int, tuple[int, int, int, float]] = {}

    def put(self, number: int, step: int, n_steps: int, loss: float) -> None:
        self._news[number] = number, step, n_steps, loss

    def take(self) -> list[tuple[int, int, int, float]]:
        news, self._news = list(self._news.values()), {}
        return news


def _connect() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("Expected Ray to be installed, but it is not. Run pip install 'surefoot[ray]'.") from error
    try:
        ray.init(address=os.environ.get("RAY_ADDRESS", "auto"), log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(
            "Expected a Ray cluster, but found none. Start one with `ray start --head`, or set RAY_ADDRESS."
        ) from error
    return ray


def _work(number: int, job: Job, inbox: Any) -> None:
    """Make a run where this worker is."""
    from surefoot.experiment import run

    last = 0.0

    def on_progress(step: int, n_steps: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.5 or step == n_steps:
            last = now
            inbox.put.remote(number, step, n_steps, loss)

    def make(path: Path, tell: Callable[[int, int, float], None]) -> None:
        run(
            job.spec,
            path,
            fresh=job.fresh,
            tracking=job.tracking,
            checkpoint_every=job.checkpoint_every,
            keep_every=job.keep_every,
            on_progress=tell,
        )

    if job.store is None:
        make(job.path, on_progress)
        return
    with tempfile.TemporaryDirectory() as home:
        _make_away(Path(home) / "run", job, make, on_progress)


def _make_away(
    home: Path,
    job: Job,
    make: Callable[[Path, Callable[[int, int, float], None]], None],
    on_progress: Callable[[int, int, float], None],
) -> None:
    """Bring the folder from the store, run, and send it back on the way and at the end."""
    store = str(job.store)
    if not job.fresh:
        download(store, home)
    sent = time.monotonic()

    def tell(step: int, n_steps: int, loss: float) -> None:
        nonlocal sent
        on_progress(step, n_steps, loss)
        if time.monotonic() - sent > max(SEND_EVERY, job.checkpoint_every):
            upload(home, store)
            sent = time.monotonic()

    make(home, tell)
    upload(home, store)
