"""What one open page hears: a stream of events, made of the run folders and nothing else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from surefoot.records import checkpoints
from surefoot.serve.runs import Glance, find, read_header
from surefoot.serve.series import Curves
from surefoot.serve.tail import Tail

EVERY = 1.0  # seconds between two looks at the folders
ALIVE = 15.0  # seconds after which a silent stream says that it is there
MOST = 500  # runs in the list
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


def choose(lines: Sequence[dict[str, Any]], wanted: str | None) -> str | None:
    """Say which run to show: the one that was asked for, else the first that is running, else the first."""
    keys = [line["key"] for line in lines]
    if wanted in keys:
        return wanted
    running = [line["key"] for line in lines if line["state"] == "running"]
    return next(iter([*running, *keys]), None)


def events(paths: Sequence[Path], wanted: str | None, wait: Callable[[float], bool]) -> Iterator[bytes]:
    """Follow the folders.

    Args:
        paths: Run folders, or folders that hold some.
        wanted: Key of the run whose curves to send; the page may name one that is not there.
        wait: Sleeps so many seconds; says whether to stop.

    Yields:
        Server-sent events: ``runs``, the list, whenever it changes, and ``run``, what is new about the chosen one.
    """
    listing, chosen, told, heard = Listing(paths), None, None, time.monotonic()
    curves, tail, said = Curves(), Tail(Path()), None
    while True:
        glances, lines = listing.look()
        following = choose(lines, chosen or wanted)
        news = {"runs": lines, "chosen": following}
        if news != told:
            told, heard = news, time.monotonic()
            yield event("runs", news)
        if following is not None:
            path = glances[following].header.path
            is_other = following != chosen
            if is_other:
                chosen, curves, tail, said = following, Curves(), Tail(path / "steps.jsonl"), None
            is_cut, records = tail.read()
            if is_cut:
                curves, said = Curves(), None
            new = curves.add(records) if records or is_other or is_cut else None
            words = curves.findings(_kept(path)) if new is not None else said
            if new is not None:
                told_now = {"key": following, "anew": is_other or is_cut, **new, "findings": words}
                said, heard = words, time.monotonic()
                yield event("run", told_now)
        if time.monotonic() - heard > ALIVE:
            heard = time.monotonic()
            yield b": still here\n\n"
        if wait(EVERY):
            return


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
