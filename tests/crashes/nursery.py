"""Commands in processes that have imported everything already: forked, so that one costs tenths of a second.

The process that forks has one thread and never computes; each child is as new. Engines that would start processes of
their own make their runs in the child itself, where the disk is watched.
"""

from __future__ import annotations

import importlib
import io
import json
import multiprocessing
import os
import resource
import select
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crashes.disk import Disk

SLOWEST = 120.0  # seconds of the processor
_AT_FIRST = (
    "torch",
    "surefoot.cli",
    "surefoot.experiment",
    "surefoot.studies.runner",
    "surefoot.studies.engines.local",
)


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Its exit code; negative for a signal.
        out: What it printed.
        err: What it said.
        seen: Points of the disk, where they were counted.
        reached: Files that were written through it.
        seconds: How long it took.
        megabytes: How much memory it held at most.
    """

    code: int
    out: str
    err: str
    seen: list[tuple[str, str]] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    seconds: float = 0.0
    megabytes: float = 0.0


class Inline:
    """An engine that makes each run here and now."""

    slots = 1

    def __init__(self, workers: int | None, n_jobs: int) -> None:
        self._ended: list[tuple[int, BaseException | None]] = []

    def submit(self, number: int, job: Any) -> None:
        """Make the run."""
        from surefoot.studies.engine import make

        try:
            make(job, job.path, lambda step, n_steps, loss: None)
            self._ended.append((number, None))
        except Exception as error:
            self._ended.append((number, error))

    def progress(self) -> Iterable[tuple[int, int, int, float]]:
        """Say nothing."""
        return ()

    def ended(self) -> Iterable[tuple[int, BaseException | None]]:
        """Say how the runs ended."""
        found, self._ended = self._ended, []
        return found

    def close(self) -> None:
        """Do nothing."""


def raise_children(*, inline: bool = True) -> None:
    """Make this process one to fork from: one thread, everything imported that is known to be needed.

    Args:
        inline: Make the runs of a comparison in the child itself; else in processes of its own, forked as well.
    """
    import torch

    torch.set_num_threads(1)
    for name in _AT_FIRST:
        importlib.import_module(name)
    from surefoot.records import RunFolder
    from surefoot.studies.engines import local

    if inline:
        local.LocalEngine = Inline  # type: ignore[assignment,misc]
    else:
        forked = multiprocessing.get_context("fork")
        local.multiprocessing.get_context = lambda method=None: forked  # type: ignore[assignment,return-value]
    timed = RunFolder.add_seconds
    RunFolder.add_seconds = lambda self, step, seconds, tracking=0.0: timed(self, step, 0.0, 0.0)  # type: ignore[method-assign]


def start(words: str, folder: Path) -> int:
    """Start a command in a child with a session of its own, which says nothing, and return its number."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            quiet = os.open(os.devnull, os.O_RDWR)
            for target in range(3):
                os.dup2(quiet, target)
            _be_child(lambda: _type(shlex.split(words)), folder, None, None, SLOWEST, quiet)
        finally:
            os._exit(70)
    return child


def run(words: str | list[str], folder: Path, disk: Disk | None = None, *, limit: int | None = None) -> Ended:
    """Run a command in a child.

    Args:
        words: Of the command line.
        folder: Where it runs.
        disk: What watches its files.
        limit: Bytes of memory that it may ask for.

    Returns:
        How it ended.
    """
    typed = shlex.split(words) if isinstance(words, str) else words
    return call(lambda: _type(typed), folder, disk, limit=limit)


def _type(words: list[str]) -> None:
    sys.argv = ["surefoot", *words]
    from surefoot.cli import main

    main()


def call(
    what: Callable[[], Any],
    folder: Path,
    disk: Disk | None = None,
    *,
    limit: int | None = None,
    slowest: float = SLOWEST,
) -> Ended:
    """Do so with any function; modules that it imports are imported here for the next ones."""
    began = time.monotonic()
    pipes = [os.pipe() for _ in range(3)]  # what is printed, what is said, what is told to us
    child = os.fork()
    if child == 0:
        try:
            for (reader, writer), target in zip(pipes[:2], (1, 2), strict=True):
                os.dup2(writer, target)
                os.close(reader)
            _be_child(what, folder, disk, limit, slowest, pipes[2][1])
        finally:
            os._exit(70)
    for _, writer in pipes:
        os.close(writer)
    texts = _read([reader for reader, _ in pipes], child, began + 10 * slowest)
    _, status, used = os.wait4(child, 0)
    told = json.loads(texts[2] or "{}")
    _import(told.get("imported", ()))
    code, seconds = os.waitstatus_to_exitcode(status), time.monotonic() - began
    seen = [(kind, name) for kind, name in told.get("seen", ())]
    return Ended(code, texts[0], texts[1], seen, set(told.get("reached", ())), seconds, used.ru_maxrss / 1024)


def _be_child(
    what: Callable[[], Any], folder: Path, disk: Disk | None, limit: int | None, slowest: float, tell: int
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", write_through=True)
    os.chdir(folder)
    os.environ["COLUMNS"] = "100"
    resource.setrlimit(resource.RLIMIT_CPU, (int(slowest), int(slowest) + 5))
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if disk is not None:
        disk.watch()
    code: Any = 0
    known = set(sys.modules)
    try:
        what()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 71
    sys.stdout.flush()
    points = {"seen": disk.seen, "reached": sorted(disk.reached)} if disk is not None else {}
    with os.fdopen(tell, "w") as told:
        json.dump({**points, "imported": sorted(set(sys.modules) - known)}, told)
    os._exit(code)


def _read(readers: list[int], child: int, until: float) -> list[str]:
    """Read pipes until all are closed; a child that takes for ever is ended."""
    found: dict[int, list[bytes]] = {reader: [] for reader in readers}
    left = set(readers)
    while left:
        ready, _, _ = select.select(left, [], [], max(0.0, until - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            until = time.monotonic() + 5.0
        for reader in ready:
            if piece := os.read(reader, 1 << 16):
                found[reader].append(piece)
            else:
                os.close(reader)
                left.discard(reader)
    return [b"".join(pieces).decode(errors="backslashreplace") for pieces in found.values()]


def _import(names: Iterable[str]) -> None:
    for name in sorted(names):
        if name and not name.startswith(("tests.", "__")):
            try:
                importlib.import_module(name)
            except Exception:  # what a library made up, and nothing to import
                continue
