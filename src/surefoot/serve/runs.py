"""Run folders as a page sees them: which there are, how far they are, whether somebody is at them."""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surefoot.batches import count_batches
from surefoot.json_values import is_number
from surefoot.serve.tail import Tail, newest_of_each, read_object

Record = dict[str, Any]
Stamp = tuple[int, int]
NEVER: Stamp = (0, 0)
LONGEST = 500  # characters of a text in the list
DEPTH = 3  # folders of folders in which runs are looked for
QUIET = 30.0  # seconds without a record after which a run without a lock counts as interrupted


@dataclass(frozen=True)
class Header:
    """What does not change while a run trains.

    Attributes:
        key: Names the run to the page; made of its path, and no path.
        path: The folder.
        group: Names the folder that it is in: runs of one comparison have the same.
        name: The folder's name.
        method: The method's label.
        about: Data, model and seed in a line.
        n_steps: Steps in all; 0 where nobody knows.
        per_epoch: Steps of an epoch.
        is_own: Whether a loop that is not ours trains it, which keeps no checkpoints.
    """

    key: str
    path: Path
    group: str
    name: str
    method: str
    about: str
    n_steps: int
    per_epoch: int
    is_own: bool = False


def key_of(path: Path) -> str:
    """Name a run without saying where it is."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]


def find(paths: Iterable[Path]) -> dict[str, Path]:
    """Look for run folders, finished or not.

    Args:
        paths: Run folders, or folders that hold some; those that are not there yet may come.

    Returns:
        The folders by key, in the order of the paths and names.
    """
    return {key_of(folder): folder for path in paths for folder in _below(path, DEPTH)}


def _below(path: Path, depth: int) -> Iterator[Path]:
    if os.path.isfile(path / "spec.json"):  # unlike Path.is_file, it says no where one may not look
        yield path
        return
    try:
        inside = sorted(entry.path for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return
    for entry in inside if depth else ():
        yield from _below(Path(entry), depth - 1)


def read_header(path: Path) -> Header | None:
    """Read what a run is; None where its ``spec.json`` is none."""
    found = read_object(path / "spec.json")
    if found is None:
        return None
    spec, data = _table(found.get("spec")), _table(found.get("data"))
    epochs, batch = _whole(spec.get("epochs")), _whole(spec.get("batch_size"))
    own = _whole(data.get("steps_per_epoch"))  # of a loop that is not ours
    rows = _whole(_table(data.get("examples")).get("train"))
    per_epoch = own or (count_batches(rows, batch) if rows and batch else 0)
    method = _table(spec.get("method"))
    trainings = _whole(_table(_table(method.get("ensemble")).get("options")).get("members"), 1)
    deep = _table(method.get("ensemble")).get("name") == "deep"
    parts = [str(_table(spec.get(part)).get("name", "?")) for part in ("data", "model")]
    return Header(
        key=key_of(path),
        path=path,
        group=key_of(path.resolve().parent),
        name=path.resolve().name,
        method=str(method.get("label", "?"))[:LONGEST],
        about=f"{parts[1]} on {parts[0]}, seed {spec.get('seed', '?')}"[:LONGEST],
        n_steps=per_epoch * epochs * (trainings if deep else 1),
        per_epoch=per_epoch,
        is_own=own > 0,
    )


def state_of(path: Path) -> str:
    """Say how a run stands.

    A run that is not finished is running while its lock is held, by a process here or on another machine that shares
    the path. A process that dies lets go of its lock, however it dies.

    Args:
        path: The run folder.

    Returns:
        ``finished``, ``running`` or ``interrupted``.
    """
    if os.path.isfile(path / "done.json"):
        return "finished"
    if is_held(path / ".lock"):
        return "running"
    if os.path.isfile(path / "done.json"):  # it has ended between two looks
        return "finished"
    return "interrupted"


def is_held(lock: Path) -> bool:
    """Return whether a process holds a lock. To find out it is shared for a moment, which a writer waits for."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks: what was written lately must do
        return _is_fresh(lock.parent / "steps.jsonl")
    finally:
        os.close(handle)
    return False


def _is_fresh(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < 60
    except OSError:
        return False


class Glance:
    """Tells of one run what a list shows, from the last lines of its files, read again when they have changed.

    Args:
        header: What the run is.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self._seen: Stamp | None = None
        self._told: tuple[tuple[Stamp, Stamp], Record] | None = None
        self._step: Record = {}
        self._quality: Record = {}
        self._clock = Clock(header.path / "timing.jsonl")
        self._lock_seen, self._grew = False, -math.inf

    def look(self) -> Record:
        """Return state, progress, time, cost and the newest numbers, as plain JSON."""
        path = self.header.path
        stamp, ended = _stamp(path / "steps.jsonl"), _stamp(path / "done.json")
        if ended != NEVER and self._told is not None and self._told[0] == (stamp, ended):
            return self._told[1]  # nothing comes after the end
        told = self._look(stamp)
        self._told = (stamp, ended), told
        return told

    def _look(self, stamp: Stamp) -> Record:
        path = self.header.path
        if stamp != self._seen:
            self._grew = -math.inf if self._seen is None else time.monotonic()
            self._seen = stamp
            self._step, look = newest_of_each(path / "steps.jsonl")
            self._quality = look or (self._quality if self._step else {})
            self._clock.read()
        done = read_object(path / "done.json") or {}
        state = self._state()
        step = _whole(self._step.get("step"))
        n_steps = max(self.header.n_steps, step) if self.header.n_steps or state == "finished" else 0
        split = held_out(self._quality)
        return {
            "key": self.header.key,
            "name": self.header.name,
            "method": self.header.method,
            "about": self.header.about,
            "group": self.header.group,
            "own": self.header.is_own,
            "state": state,
            "step": step,
            "n_steps": n_steps,
            "per_epoch": self.header.per_epoch,
            "loss": number(self._step.get("loss")),
            "passes": number(done.get("passes", self._step.get("passes"))),
            "seconds": number(done.get("seconds", self._clock.trained)),
            "left": self._clock.left(n_steps - step) if state == "running" and n_steps else None,
            "accuracy": number(self._quality.get(f"{split}/accuracy")),
            "ece": number(self._quality.get(f"{split}/ece")),
            "gap": number(self._quality.get(f"{split}/gap")),
            "split": split,
        }

    def _state(self) -> str:
        """Say how the run stands; where no lock was ever seen here, one whose records grow is running.

        Some file systems do not show one machine's locks to another.
        """
        state = state_of(self.header.path)
        self._lock_seen = self._lock_seen or state == "running"
        is_growing = not self._lock_seen and time.monotonic() - self._grew < QUIET
        return "running" if state == "interrupted" and is_growing else state


def _stamp(path: Path) -> Stamp:
    """Return when a file was last written, and its size."""
    try:
        found = path.stat()
    except OSError:
        return NEVER
    return found.st_mtime_ns, found.st_size


class Clock:
    """Adds up the seconds of a run as they are written.

    Args:
        path: ``timing.jsonl``; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)
        self._seconds, self._tracking, self._step = 0.0, 0.0, 0.0

    def read(self) -> None:
        """Read on; what was cut off is counted no more."""
        anew, lines = self._tail.read()
        if anew:
            self._seconds, self._tracking, self._step = 0.0, 0.0, 0.0
        for line in lines:
            step, seconds = number(line.get("step")), number(line.get("seconds"))
            if step and seconds:
                self._seconds, self._step = self._seconds + seconds, step
                self._tracking += number(line.get("tracking")) or 0

    @property
    def trained(self) -> float | None:
        """Seconds of training so far, without those of trackers; None where nobody has noted any."""
        return self._seconds - self._tracking if self._step else None

    def left(self, n_steps: int) -> float | None:
        """Return how many seconds so many steps more will take, trackers included."""
        return max(0.0, self._seconds / self._step * n_steps) if self._step else None


def held_out(quality: Mapping[str, Any]) -> str:
    """Return the split that a run is watched by: calibration, which one may choose by, or test where it is alone."""
    return "calibration" if "calibration/loss" in quality else "test"


def of_tracker(records: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return what one tracker saw, without the looks at which it failed or was skipped."""
    return [r for r in records if r.get("tracker") == name and "failed" not in r and "skipped" not in r]


def number(value: Any) -> float | None:
    """Return a finite number, or None for whatever else a file may hold."""
    return value if is_number(value) else None


def _whole(value: Any, least: int = 0) -> int:
    found = number(value)
    return least if found is None else max(least, int(found))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
