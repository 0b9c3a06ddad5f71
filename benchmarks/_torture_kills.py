"""Random SIGKILLs for ``torture.py``: what is left, who lives on, and whether the next try has the same bytes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import numpy as np
from tests.crashes import nursery
from tests.crashes.commands import COMMANDS, SETTINGS, Command, prepare
from tests.crashes.points import content, is_left_over

KILLED = {
    "train": Command(f"train --out run --method sam --checkpoint-every 0 {SETTINGS} --epochs 6"),
    "train, deep": Command(f"train --out run --method deep:members=2 --checkpoint-every 0 {SETTINGS} --epochs 3"),
    "compare": Command(f"compare --out runs --methods sgd,sam --seeds 2 --jobs 2 {SETTINGS} --epochs 4"),
    "study": Command("study tests.studies.gate:gated --jobs 2 --out runs"),
    "report": COMMANDS["report"],
    "audit": COMMANDS["audit"],
    "calibrate": Command("calibrate preds.npz --out c.json", old=("calibrate other.npz --out c.json",)),
    "repair": COMMANDS["repair npz"],
}
LONGEST = 60.0  # seconds until a process that was told to end is an orphan


def torture(home: Path, small: Path, n: int, seconds: float, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Kill commands at random moments until there are enough, or no time is left.

    Args:
        home: An empty folder.
        small: Data to train on.
        n: How many kills that hit a running command.
        seconds: How long.
        seed: Of the moments.

    Returns:
        How many of what, and the faults in words.
    """
    draws, counts, faults = np.random.default_rng(seed), Counter[str](), list[str]()
    until, wanted, lasts = time.monotonic() + seconds, dict[str, dict[str, bytes]](), dict[str, float]()
    while counts["kills"] < n and time.monotonic() < until:
        name = list(KILLED)[int(draws.integers(len(KILLED)))]
        start, place = home / name / "start", home / name / "work"
        if name not in wanted:
            wanted[name], lasts[name] = _undisturbed(KILLED[name], start, place, small)
        shutil.rmtree(place)
        shutil.copytree(start, place)
        child = nursery.start(KILLED[name].words, place)
        time.sleep(draws.uniform(0, 1.1 * lasts[name]))
        was_running = os.waitpid(child, os.WNOHANG)[0] == 0
        if was_running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        counts["kills"] += was_running
        counts["too late"] += not was_running
        found = list(_faults(KILLED[name], child, place, wanted[name]))
        for kind, text in found:
            counts[kind] += 1
            faults.append(f"{name}: {kind}: {text}")
    return counts, faults


def _undisturbed(command: Command, start: Path, place: Path, small: Path) -> tuple[dict[str, bytes], float]:
    prepare(start, small)
    for words in command.before:
        nursery.run(words, start)
    shutil.copytree(start, place)
    nursery.run(command.words, place)
    shutil.rmtree(place)
    shutil.copytree(start, place)
    ended = nursery.run(command.words, place)  # a second time: everything is imported now
    if ended.code:
        raise SystemExit(f"Expected {command.words} to work, but it did not: {ended.err}")
    found = content(place)
    for words in command.old:
        nursery.run(words, start)
    return found, ended.seconds


def _faults(command: Command, child: int, place: Path, wanted: dict[str, bytes]) -> list[tuple[str, str]]:
    found, until = [], time.monotonic() + LONGEST
    while (left := in_session(child)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        found.append(("orphans", f"process {pid} lives on"))
        os.kill(pid, signal.SIGKILL)
    again = nursery.run(command.words, place)
    if again.code:
        return [*found, ("refused", again.err.strip()[-300:])]
    there = content(place)
    for file in sorted({*there, *wanted}):
        if is_left_over(file):
            found.append(("left-over files", file))
        elif there.get(file) != wanted.get(file):
            found.append(("differing files", file))
    return found


def in_session(number: int) -> list[int]:
    """List the processes of a session that still live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(words[3]) == number and words[0] not in "ZX":
            found.append(int(path.parent.name))
    return found
