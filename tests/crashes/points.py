"""Go through the crash points of a command: ``python -m tests.crashes.points FOLDER small.npz [NAME=9+20 …]``.

After each, the same command is run again. What it leaves must be, byte for byte, what an undisturbed one leaves;
nothing half-written may stay; and what was there before must be whole at every moment. Prints one JSON
object per command.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.crashes.commands import COMMANDS, Command, prepare
from tests.crashes.disk import CRASHED, HOW, Disk
from tests.crashes.nursery import Ended, raise_children, run

UNLIKE = ("timing.jsonl",)  # a line per session
REMOVALS = ("unlink", "remove", "rmdir")


@dataclass
class Found:
    """What came of a command.

    Attributes:
        name: Of the command.
        points: How many things it does to files.
        tried: How many crashes were made.
        faults: What was wrong, one sentence each.
        around: Files that were written by none of the watched doors.
    """

    name: str
    points: int = 0
    tried: int = 0
    faults: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)


def content(folder: Path) -> dict[str, bytes]:
    """Read all files, but for those that tell how often it was begun."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in UNLIKE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def is_left_over(name: str) -> bool:
    """Return whether a file is something half-written or set aside."""
    parts = Path(name).parts
    return any(part.startswith(".") and part != ".lock" for part in parts) or ".tmp" in name or ".old" in name


def torture(name: str, home: Path, small: Path, every: int = 1, first: int = 0) -> Found:
    """Make each crash of a command in turn.

    Args:
        name: Of the command.
        home: An empty folder to work in.
        small: Data to train on.
        every: Take only each so-manieth crash.
        first: Which one to begin with.

    Returns:
        What was found.
    """
    command, found = COMMANDS[name], Found(name)
    start, place = home / "start", home / "work"
    prepare(start, small)
    for words in command.before:
        _must(run(words, start))
    shutil.copytree(start, place)
    disk = Disk(place)
    whole = run(command.words, place, disk)
    _must(whole)
    wanted = content(place)
    found.points = len(whole.seen)
    found.around = sorted(set(wanted) - set(content(start)) - whole.reached)
    for words in command.old:
        _must(run(words, start))
    old = content(start)
    kinds = [kind for kind, _ in whole.seen]  # only a write can be torn
    every_crash = [(at, how) for at, kind in enumerate(kinds) for how in HOW if kind == "write" or how != "tear"]
    for at, how in every_crash[first::every]:
        found.tried += 1
        kind, file = whole.seen[at]
        shutil.rmtree(place)
        shutil.copytree(start, place)
        crashed = run(command.words, place, Disk(place, at, how))
        where = f"{name}: point {at} ({kind} {file}), {how}"
        faults = _faults(command, crashed, how, place, old, wanted, is_removal=kind in REMOVALS)
        found.faults += [f"{where}: {fault}" for fault in faults]
    shutil.rmtree(home)
    return found


def _faults(
    command: Command,
    crashed: Ended,
    how: str,
    place: Path,
    old: dict[str, bytes],
    wanted: dict[str, bytes],
    *,
    is_removal: bool,
) -> Iterator[str]:
    yield from _told(crashed, how)
    there = content(place)
    if command.old:
        for file in wanted:
            if there.get(file) not in (old.get(file), wanted[file]):
                yield f"{file} is neither the old nor the new one"
    if how == "fail" and not is_removal:  # which leaves what it could not remove, to the next run
        yield from (f"left {file} after an error" for file in there if is_left_over(file))
    again = run(command.words, place)
    if again.code:
        yield f"the same command again ends with {again.code}: {again.err.strip()[-300:]}"
        return
    there = content(place)
    for file in sorted({*there, *wanted}):
        if is_left_over(file):
            yield f"left {file}"
        elif file not in wanted or file not in there:
            yield f"{file} is {'missing' if file in wanted else 'one too many'}"
        elif there[file] != wanted[file]:
            yield f"{file} differs"


def _told(crashed: Ended, how: str) -> Iterator[str]:
    if "Traceback" in crashed.err or "unexpected" in crashed.err:
        yield f"said {crashed.err.strip()[-300:]!r}"
    elif how != "fail" and crashed.code != CRASHED:
        yield f"did not come to its point, but ended with {crashed.code}: {crashed.err.strip()[-200:]}"
    elif how == "fail" and crashed.code not in (0, 1):
        yield f"ended with {crashed.code}: {crashed.err.strip()[-200:]}"


def _must(ended: Ended) -> None:
    if ended.code:
        raise SystemExit(f"Expected a command to work, but it ended with {ended.code}: {ended.err}")


def main() -> None:
    """Go through the commands that are named, or all; ``NAME=9+20`` takes the crashes 9, 29, 49 and so on of one."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("small", type=Path)
    asked.add_argument("names", nargs="*", default=list(COMMANDS))
    given = asked.parse_args()
    raise_children()
    for text in given.names:
        name, _, some = text.partition("=")
        first, _, every = (some or "0+1").partition("+")
        told = torture(name, given.folder.resolve() / "one", given.small.resolve(), int(every), int(first))
        print(json.dumps(asdict(told)), flush=True)


if __name__ == "__main__":
    main()
