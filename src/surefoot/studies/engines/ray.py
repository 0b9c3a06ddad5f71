"""Runs as tasks of a Ray cluster: ``ray start --head`` on one machine, ``ray start --address …`` on the others.

Run folders lie on a path that all machines share. Where there is none, ``store`` is an address that they all reach:
a worker brings the folder home, runs, and sends it back on the way and at the end, so that another machine can go on.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from surefoot.cluster_head import head_of
from surefoot.clusters import LOCAL, connect, disconnect
from surefoot.errors import InputError, RunError, SurefootError
from surefoot.records.remote import download
from surefoot.settings import Placement
from surefoot.studies.engine import Job, make
from surefoot.studies.stored import make_stored

PAUSE = 0.2  # seconds to wait for news
PATIENCE = 5.0  # seconds for the inbox to answer, before it is looked whether anything still does


class RayEngine:
    """One Ray task per run.

    All runs are handed over at once: Ray knows where there is room, and a cluster that grows by itself sees how much
    there is to do.

    Args:
        placement: The cluster, what a run takes, and how many at once, if not as many as fit.
        n_jobs: How many there are to make.

    Raises:
        InputError: If Ray is not installed or no cluster can be reached.
    """

    def __init__(self, placement: Placement, n_jobs: int) -> None:
        self._ray = join(placement)
        self._head = head_of(self._ray)
        self.slots = placement.jobs or n_jobs
        self._inbox = self._ray.remote(num_cpus=0, max_restarts=-1)(_Inbox).remote()
        # A worker that dies is this project's to deal with: the second attempt is counted and told like any other.
        takes = takes_of(placement)
        self._task = self._ray.remote(max_retries=0, num_cpus=takes["CPU"], num_gpus=takes["GPU"])(_work)
        self._running: dict[Any, tuple[int, Job]] = {}

    def submit(self, number: int, job: Job) -> None:
        """Start a task."""
        self._running[self._task.remote(number, job, self._inbox, str(Path.cwd()))] = number, job

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        """Empty the inbox.

        Raises:
            RunError: If the head of the cluster is lost.
        """
        self._head.check()
        found: list[tuple[int, int, int, float]] = []
        lost = self._ray.exceptions.RayActorError  # its machine is gone; it comes back on another one
        with suppress(lost, self._ray.exceptions.GetTimeoutError):
            found = self._ray.get(self._inbox.take.remote(), timeout=PATIENCE)
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
        """Stop what still runs and leave the cluster; one that has lost its head can be told nothing."""
        if not self._head.is_lost:
            for task in self._running:
                self._ray.cancel(task, force=True)
            self._ray.kill(self._inbox)
        disconnect()


class _Inbox:
    """Holds news until the driver asks; lives in the cluster."""

    def __init__(self) -> None:
        self._news: dict[int, tuple[int, int, int, float]] = {}

    def put(self, number: int, step: int, n_steps: int, loss: float) -> None:
        self._news[number] = number, step, n_steps, loss

    def take(self) -> list[tuple[int, int, int, float]]:
        news, self._news = list(self._news.values()), {}
        return news


def go_to(folder: str) -> None:
    """Work in the folder that the command was typed in, where it is there: names of data and modules are found."""
    if Path(folder).is_dir():
        os.chdir(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def _work(number: int, job: Job, inbox: Any, folder: str) -> None:
    """Make a run where this worker is."""
    go_to(folder)
    last = 0.0

    def on_progress(step: int, n_steps: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.5 or step == n_steps:
            last = now
            inbox.put.remote(number, step, n_steps, loss)

    if job.store is None:
        make(job, job.path, on_progress)
        return
    with tempfile.TemporaryDirectory() as home:
        make_stored(job, Path(home) / "run", on_progress)


def takes_of(placement: Placement) -> dict[str, float]:
    """Return what a run takes, by Ray's names."""
    cpus = 1.0 if placement.cpus_per_run is None else placement.cpus_per_run
    return {"CPU": cpus, "GPU": placement.gpus_per_run or 0.0}


def join(placement: Placement) -> Any:
    """Join the cluster that runs are made on.

    Args:
        placement: Which one, and what a run takes.

    Returns:
        The module ``ray``.

    Raises:
        InputError: If no cluster can be joined, or one of this machine alone has not what a run takes.
    """
    ray = connect(placement.address)
    try:
        check_room(ray.nodes(), takes_of(placement), is_local=placement.address == LOCAL)
    except InputError:
        disconnect()
        raise
    return ray


def check_room(nodes: Sequence[Mapping[str, Any]], takes: Mapping[str, float], *, is_local: bool) -> None:
    """Say so if no machine has what a run takes; one that has may join yet, but not a cluster of this machine alone."""
    for kind, wanted in takes.items():
        most = max((float(node["Resources"].get(kind, 0.0)) for node in nodes if node["Alive"]), default=0.0)
        if wanted <= most:
            continue
        if is_local:
            flag = f"--{kind.lower()}s-per-run"
            raise InputError(
                f"Expected {flag} to be at most {most:g}, which this machine has, but got {wanted:g}. Lower it."
            )
        warnings.warn(
            f"A run takes {wanted:g} {kind}, but the largest machine of the Ray cluster has {most:g}: "
            "runs wait until a larger one joins.",
            stacklevel=3,
        )
