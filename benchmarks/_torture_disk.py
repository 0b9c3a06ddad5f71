"""A disk that fills up and surroundings that lack something, for ``torture.py``: one line each, and nothing lost."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tests.crashes import nursery
from tests.crashes.commands import COMMANDS, prepare
from tests.crashes.nursery import Ended
from tests.crashes.points import content, is_left_over

ROOT = Path(__file__).parents[1]
FULL = ("train", "train, deep", "compare", "study", "report", "audit", "calibrate, tensors", "repair npz", "check")


def torture(home: Path, small: Path, places: int, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Fill the disk at random places, then take one thing after another away.

    Args:
        home: An empty folder.
        small: Data to train on.
        places: How many times the disk is full.
        seed: Of the places.

    Returns:
        How many cases of each kind, and the faults in words.
    """
    draws, faults, counts = np.random.default_rng(seed), list[str](), dict[str, int]()
    for number in range(places):
        name = FULL[number % len(FULL)]
        faults += _full(name, home / str(number), small, draws)
    counts["disk full"] = places
    prepare(home / "around", small)
    for name, check in _AROUND.items():
        counts[name] = 1
        faults += [f"{name}: {fault}" for fault in check(home / "around")]
    return counts, faults


def _full(name: str, home: Path, small: Path, draws: np.random.Generator) -> list[str]:
    """Let no file grow beyond a size: the system itself refuses, to safetensors too."""
    command, start, place = COMMANDS[name], home / "start", home / "work"
    prepare(start, small)
    for words in command.before:
        nursery.run(words, start)
    shutil.copytree(start, place)
    whole = nursery.run(command.words, place)
    wanted, sizes = content(place), [path.stat().st_size for path in place.rglob("*") if path.is_file()]
    shutil.rmtree(place)
    shutil.copytree(start, place)
    most = int(draws.choice(sizes) * draws.uniform(0.1, 0.9)) + 1

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        sys.argv = ["surefoot", *command.words.split()]
        from surefoot.cli import main

        main()

    ended = nursery.call(full, place)
    where = f"disk full, {name}, files of {most} bytes at most"
    faults = [f"{where}: {fault}" for fault in one_line(ended, code=1)] if ended.code else []
    faults += [f"{where}: left {file}" for file in content(place) if is_left_over(file)]
    if name in ("audit", "compare", "report") and ended.code and "Report:" not in ended.out and not ended.out.strip():
        is_later = any(file.endswith("done.json") for file in content(place))
        faults += [f"{where}: the answer is lost"] if name != "compare" or is_later else []
    again = nursery.run(command.words, place)
    there = content(place)
    faults += [f"{where}: then {file} differs" for file in {*wanted, *there} if wanted.get(file) != there.get(file)]
    faults += [f"{where}: then it ends with {again.code}: {again.err[-300:]}"] if again.code or whole.code else []
    shutil.rmtree(home)
    return faults


def one_line(ended: Ended, code: int) -> list[str]:
    """Find what is wrong with how a command said no: it is to say one line of the usual form per failure."""
    news = re.compile(r"\[\d+/\d+ done, .*\]$")  # of runs, among which one may have failed
    lines = [line for line in ended.err.splitlines() if not line.startswith("Warning: ") and not news.search(line)]
    faults = [f"ended with {ended.code}: {ended.err[-300:]}"] if ended.code != code else []
    faults += [f"said {line[:300]!r}" for line in ended.err.splitlines() if "The run failed with" in line]
    faults += [f"said {line[:300]!r}" for line in lines if not line.startswith("Error: ") or "unexpected" in line]
    return faults if lines else [*faults, "said nothing"]


def _read_only(folder: Path) -> list[str]:
    """Be somebody to whom the mode of a folder matters; root gives up the right not to care."""
    without = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if without and shutil.which("setpriv") is None:
        return ["not tried: there is no setpriv"]
    folder.chmod(0o555)
    ended = _started(folder, without=without, clean=False)
    folder.chmod(0o755)
    lost = [] if "Read: preds.npz" in ended.out else ["the answer is lost"]
    return [*one_line(ended, code=1), *lost]


def _started(
    folder: Path,
    before: Callable[[], None] | None = None,
    *,
    without: Sequence[str] = (),
    clean: bool = True,
    **env: str | None,
) -> Ended:
    """Start a command as a shell does."""
    whole = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}", **env}
    given = {key: value for key, value in whole.items() if value is not None}
    words = [*without, sys.executable, "-P", "-m", "surefoot", "audit", "preds.npz", "--out", "page.html"]
    if clean:
        (folder / "page.html").unlink(missing_ok=True)
    done = subprocess.run(words, cwd=folder, env=given, capture_output=True, text=True, preexec_fn=before, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def _works(ended: Ended, folder: Path, *, silent: bool = False) -> list[str]:
    faults = [f"ended with {ended.code}: {ended.err[-300:]}"] if ended.code or ended.err else []
    faults += [] if silent or "Read: preds.npz" in ended.out else ["the answer is lost"]
    return faults + ([] if (folder / "page.html").is_file() else ["there is no page"])


_AROUND: dict[str, Callable[[Path], list[str]]] = {
    "read-only folder": _read_only,
    "no HOME": lambda folder: _works(_started(folder, HOME=None, XDG_CACHE_HOME=None), folder),
    "HOME that is not there": lambda folder: _works(_started(folder, HOME="/nonexistent"), folder),
    "no TMPDIR": lambda folder: _works(_started(folder, TMPDIR="/nonexistent"), folder),
    "closed stdout": lambda folder: _works(_started(folder, lambda: os.close(1)), folder, silent=True),
    "closed stderr": lambda folder: _works(_started(folder, lambda: os.close(2)), folder),
    "C locale": lambda folder: _works(
        _started(folder, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"), folder
    ),
}
