"""What one open page hears: a stream of events, made of the run folders and nothing else."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from surefoot.records import checkpoints
from surefoot.serve.runs import Glance, Header, find, read_header
from surefoot.serve.series import Curves
from surefoot.serve.tail import Tail

EVERY = 1.0  # seconds between two looks at the folders, at least
SHARE = 0.005  # of one core that looking may take: looks that cost more come less often
SLOWEST = 10.0  # seconds between two looks, however much they cost
ALIVE = 15.0  # seconds after which a silent stream says that it is there
MOST = 500  # runs in the list
MOST_DRAWN = 24  # runs whose curves are sent
_STEP = re.compile(r"step-(\d+)")


class Listing:
    """Keeps a glance per run folder, so that what has not changed is not read again.

    Args:
        paths: Run folders, or folders that hold some.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._known: dict[str, tuple[tuple[int, int], Glance]] = {}

    def look(self) -> tuple[dict[str, Glance], list[dict[str, Any]]]:
        """Return the runs that there are now, and a line of the list for each."""
        known = {}
        for key, path in list(find(self._paths).items())[:MOST]:
            try:
                found = (path / "spec.json").stat()
            except OSError:
                continue
            stamp = found.st_mtime_ns, found.st_ino
            if key in self._known and self._known[key][0] == stamp:
                known[key] = self._known[key]
            elif (header := read_header(path)) is not None:
                known[key] = stamp, Glance(header)
        self._known = known
        glances = {key: glance for key, (_, glance) in known.items()}
        return glances, [glance.look() for glance in glances.values()]


def choose(lines: Sequence[dict[str, Any]], wanted: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Say which runs to draw: those asked for, else those of before, else one that is running, else the first.

    Args:
        lines: The list of all runs.
        wanted: Keys that were asked for; whatever is no run's key is left out.
        before: Keys that were drawn so far.

    Returns:
        Keys, the one that is told about first; none where there is no run.
    """
    keys = [line["key"] for line in lines]
    for asked in (wanted, before):
        found = [key for key in dict.fromkeys(asked) if key in keys]
        if found:
            return found[:MOST_DRAWN]
    running = [line["key"] for line in lines if line["state"] == "running"]
    return [*running, *keys][:1]


class Follower:
    """Reads on in one run.

    Args:
        header: Which.
    """

    def __init__(self, header: Header) -> None:
        self._header = header
        self._tail, self._curves, self._is_new = Tail(header.path / "steps.jsonl"), Curves(), True

    def news(self) -> dict[str, Any] | None:
        """Return what is new about the run, and whether everything of before is void; None where nothing is new."""
        is_cut, records = self._tail.read()
        anew, self._is_new = self._is_new or is_cut, False
        if is_cut:
            self._curves = Curves()
        if not records and not anew:
            return None
        new = self._curves.add(records)
        kept = None if self._header.is_own else _kept(self._header.path)
        return {"key": self._header.key, "anew": anew, **new, "findings": self._curves.findings(kept)}


def events(paths: Sequence[Path], wanted: Sequence[str], wait: Callable[[float], bool]) -> Iterator[bytes]:
    """Follow the folders.

    Args:
        paths: Run folders, or folders that hold some.
        wanted: Keys of the runs whose curves to send; the page may name some that are not there.
        wait: Sleeps so many seconds; says whether to stop.

    A look that took long is followed by a long pause, so that one page takes half a percent of a core, however many
    runs there are and however long they get; but for the first look, which reads what was there before.

    Yields:
        Server-sent events: ``runs``, the list, whenever it changes, and ``run``, what is new about a chosen one.
    """
    listing, told, heard = Listing(paths), None, time.monotonic()
    followed: dict[str, Follower] = {}
    for number in itertools.count():
        began = time.thread_time()
        glances, lines = listing.look()
        chosen = choose(lines, wanted, list(followed))
        followed = {key: followed.get(key) or Follower(glances[key].header) for key in chosen}
        news = {"runs": lines, "chosen": chosen}
        if news != told:
            told, heard = news, time.monotonic()
            yield event("runs", news)
        for follower in followed.values():
            new = follower.news()
            if new is not None:
                heard = time.monotonic()
                yield event("run", new)
        if time.monotonic() - heard > ALIVE:
            heard = time.monotonic()
            yield b": still here\n\n"
        if wait(pause(time.thread_time() - began) if number else EVERY):
            return


def pause(cost: float) -> float:
    """Return how many seconds to wait after a look that took so many of the processor.

    Example:
        >>> pause(0.001), pause(0.01), pause(1.0)
        (1.0, 2.0, 10.0)
    """
    return min(SLOWEST, max(EVERY, cost / SHARE))


def event(name: str, value: Any) -> bytes:
    r"""Write one server-sent event; the value is one line of JSON, in which a newline cannot end it.

    Example:
        >>> event("run", {"loss": None})
        b'event: run\ndata: {"loss":null}\n\n'
    """
    return f"event: {name}\ndata: {json.dumps(value, allow_nan=False, separators=(',', ':'))}\n\n".encode()


def _kept(path: Path) -> set[int]:
    try:
        names = [_STEP.fullmatch(found.name) for found in checkpoints(path / "checkpoint")]
    except OSError:  # one may not look
        return set()
    return {int(found[1]) for found in names if found}
