"""Runs on this machine: processes with one thread each.

Two single-threaded processes are faster than one with two threads on networks of this size. Every slot is a pool of
its own with one process, so that a process that is killed takes no other run with it. The other way round, all of them
end with the process that started them.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.managers import SyncManager
from typing import Any

from surefoot.errors import RunError
from surefoot.studies.engine import Job, make
from surefoot.studies.engines._parent import end_with_parent
from surefoot.studies.stored import make_stored

PAUSE = 0.1  # seconds to wait for news


class LocalEngine:
    """A process per slot, kept from one run to the next, for torch takes seconds to import.

    Args:
        workers: How many runs at once; else one per core.
        n_jobs: How many there are to make: more processes than that are of no use.
    """

    def __init__(self, workers: int | None, n_jobs: int) -> None:
        self.slots = max(1, min(n_jobs, workers or os.cpu_count() or 1))
        self._context = multiprocessing.get_context("spawn")
        self._manager = SyncManager(ctx=self._context)
        self._manager.start(end_with_parent)
        self._inbox = self._manager.Queue()
        self._free: list[ProcessPoolExecutor] = []
        self._running: dict[int, tuple[ProcessPoolExecutor, Future[None]]] = {}

    def submit(self, number: int, job: Job) -> None:
        """Hand a run to a free process, or to a new one."""
        pool = self._free.pop() if self._free else self._new_pool()
        self._running[number] = pool, pool.submit(_work, number, job)

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context, initializer=_start, initargs=(self._inbox,))

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        """Empty the inbox."""
        found: list[tuple[int, int, int, float]] = []
        try:
            found.append(self._inbox.get(timeout=PAUSE))
            while True:
                found.append(self._inbox.get_nowait())
        except queue.Empty:
            return found

    def ended(self) -> Iterable[tuple[int, BaseException | None]]:
        """Ask every run; a process that was killed is replaced at the next submission."""
        found: list[tuple[int, BaseException | None]] = []
        for number, (pool, future) in list(self._running.items()):
            if not future.done():
                continue
            del self._running[number]
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                pool.shutdown(wait=False)
                error = RunError(
                    "Expected the worker process to finish, but it was killed. Run the same command again to go on."
                )
            else:
                self._free.append(pool)
            found.append((number, error))
        return found

    def close(self) -> None:
        """End all processes; only matters for the running ones when interrupted."""
        for pool in [*self._free, *(pool for pool, _ in self._running.values())]:
            processes = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
        self._manager.shutdown()


_inbox: Any = None


def _start(inbox: Any) -> None:
    global _inbox
    _inbox = inbox
    end_with_parent()


def _work(number: int, job: Job) -> None:
    last = 0.0

    def on_progress(step: int, n_steps: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.2 or step == n_steps:
            last = now
            _inbox.put((number, step, n_steps, loss))

    if job.store is None:
        make(job, job.path, on_progress)
    else:
        make_stored(job, job.path, on_progress)
