"""Changed and made-up files for ``torture.py``: what each command answers to thousands of them.

Several cases share a forked child, which tells of each as soon as it is over. Where a child dies or takes too long, the
case that it was at is to blame, and the rest goes on in another one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shlex
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _torture_made import FORMATS, generated, mutated, rows
from _torture_reader import differs, judged
from tests.crashes import nursery
from tests.crashes.commands import SETTINGS

SLOWEST, MOST = 60, 2 << 30  # seconds of the processor, bytes beside what a process has at first
TOGETHER = 25
FAULTS = ("traceback", "unexpected", "hang", "memory", "killed", "wrong")
PREDICTIONS = {
    "audit": "audit FILE --json --no-page",
    "estimate": "estimate FILE --baseline good-baseline.json",
    "calibrate": "calibrate FILE --method temperature --out fitted.json",
    "conformal": "conformal FILE --method lac --out fitted-sets.json",
    "check": "check FILE --max-ece 0.5",
}
SAVED = {
    "c.json": "calibrate good.npz --apply c.json --out repaired.npz",
    "c.safetensors": "calibrate good.npz --apply c.safetensors --out repaired.npz",
    "sets.json": "conformal good.npz --apply sets.json --out with-sets.csv",
    "baseline.json": "check good.npz --baseline baseline.json",
    "data.npz": "train --out fresh-run --fresh --data npz:data.npz --model mlp:width=4 --epochs 1 --batch-size 45",
    "run.toml": "train --config run.toml --out fresh-run --fresh",
}
FOLDERS = {
    "report": "report run --out page.html",
    "resume": f"train --out run --checkpoint-every 0 {SETTINGS}",
    "measure": "measure run --track gn_sharpness",
}


@dataclass(frozen=True)
class Case:
    """One file, changed or made up, and a command.

    Attributes:
        kind: Where it counts in the table.
        name: Of the file, below the folder.
        content: Of the file.
        words: Of the command line.
        folder: Which prepared folder it is put into.
    """

    kind: str
    name: str
    content: bytes
    words: str
    folder: str = "files"


@dataclass
class Tally:
    """How many of what.

    Attributes:
        cases: How many there were of each kind.
        faults: How many of each fault.
        answered: How many were answered, and how many of these the judge could read as well.
        said: The first of each fault, for whoever repairs it.
    """

    cases: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)


def prepare(home: Path, small: Path) -> None:
    """Lay out the good files and a finished and an unfinished run."""
    files, draws = home / "files", np.random.default_rng(0)
    files.mkdir(parents=True)
    shutil.copyfile(small, files / "small.npz")
    shutil.copyfile(small, files / "data.npz")
    for name in ("good", "other"):
        probs, labels = rows(draws, 200)
        np.savez(files / f"{name}.npz", logits=np.log(probs + 1e-9), labels=labels)
    made = ["calibrate other.npz --method temperature --out c.json", "conformal other.npz --method lac --out sets.json"]
    made += ["calibrate other.npz --method vector --out c.safetensors"]
    made += ["check other.npz --max-ece 0.9 --save-baseline baseline.json", f"train --out run {SETTINGS}"]
    for words in made:
        ended = nursery.run(words, files)
        if ended.code:
            raise SystemExit(f"Expected {words} to work, but it did not: {ended.err}")
    shutil.copyfile(files / "baseline.json", files / "good-baseline.json")
    shutil.copyfile(files / "run" / "run.toml", files / "run.toml")
    shutil.copytree(files, home / "finished")
    shutil.copytree(files, home / "begun")
    for name in ("done.json", "checksums.json", "measures.jsonl"):
        (home / "begun" / "run" / name).unlink()


def cases(home: Path, seed: int) -> Iterator[Case]:
    """Make cases without end."""
    draws = np.random.default_rng(seed)
    names, commands, saved, folders = list(FORMATS), list(PREDICTIONS), list(SAVED), list(FOLDERS)
    inside = sorted(path for path in (home / "finished" / "run").rglob("*") if path.is_file() and path.name != ".lock")
    while True:
        kind = draws.random()
        if kind < 0.65:
            command = commands[0] if draws.random() < 0.7 else commands[int(draws.integers(1, len(commands)))]
            if kind < 0.4:
                name = names[int(draws.integers(len(names)))]
                content = mutated(FORMATS[name](*rows(draws)), draws)
            else:
                name, content = generated(draws)
            yield Case(
                f"{command}, {'changed' if kind < 0.4 else 'made up'}",
                name,
                content,
                PREDICTIONS[command].replace("FILE", name),
            )
        elif kind < 0.85:
            name = saved[int(draws.integers(len(saved)))]
            yield Case(f"{name}, changed", name, mutated((home / "files" / name).read_bytes(), draws), SAVED[name])
        else:
            command = folders[int(draws.integers(len(folders)))]
            where = "begun" if command == "resume" and draws.random() < 0.7 else "finished"
            file = inside[int(draws.integers(len(inside)))]
            path = home / where / "run" / file.relative_to(home / "finished" / "run")
            if path.exists():
                name = str(path.relative_to(home / where))
                yield Case(
                    f"{command}, changed folder", name, mutated(path.read_bytes(), draws), FOLDERS[command], where
                )


def torture(home: Path, small: Path, n: int, seconds: float, seed: int = 1) -> Tally:
    """Run cases until there are enough of them, or no time is left.

    Args:
        home: An empty folder.
        small: Data to train on.
        n: How many.
        seconds: How long.
        seed: Of the cases.

    Returns:
        What was found.
    """
    prepare(home, small)
    tally, stream, until = Tally(), cases(home, seed), time.monotonic() + seconds
    todo: list[Case] = []
    while (todo or sum(tally.cases.values()) < n) and time.monotonic() < until:
        todo += [next(stream) for _ in range(TOGETHER - len(todo))]
        told = _together(home, todo)
        for case, (code, out, err) in zip(todo, told, strict=False):
            _count(tally, case, code, out, err)
        if len(told) < len(todo):  # the child died of the next one, which is tried by itself
            case = todo[len(told)]
            alone = _alone(home, case)
            _count(tally, case, *alone)
            told.append(alone)
        todo = todo[len(told) :]
    return tally


def _together(home: Path, todo: list[Case]) -> list[tuple[int, str, str]]:
    ended = nursery.call(lambda: _do(home, todo), home, slowest=SLOWEST * 4, limit=_limit())
    return [tuple(json.loads(line)) for line in ended.out.splitlines() if line.startswith("[")]  # type: ignore[misc]


def _alone(home: Path, case: Case) -> tuple[int, str, str]:
    ended = nursery.call(lambda: _do(home, [case]), home, slowest=SLOWEST, limit=_limit())
    lines = [json.loads(line) for line in ended.out.splitlines() if line.startswith("[")]
    if lines:
        return tuple(lines[0])  # type: ignore[return-value]
    if ended.code in (-signal.SIGXCPU, -signal.SIGKILL):
        return 1, "", "HANG"
    return 1, "", f"KILLED {ended.code} {ended.err[-300:]}"


def _limit() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize() + MOST


def _do(home: Path, todo: list[Case]) -> None:
    """Run cases one after another in this process, and tell of each."""
    from surefoot.cli import main

    told = sys.stdout
    for number, case in enumerate(todo):
        place = home / f"case-{os.getpid()}-{number}"
        shutil.copytree(home / case.folder, place)
        (place / case.name).write_bytes(case.content)
        os.chdir(place)
        out, err, code = io.StringIO(), io.StringIO(), 0
        sys.argv = ["surefoot", *shlex.split(case.words)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            except BaseException:
                traceback.print_exc()
        wrong = _wrong(home, place, case, code, out.getvalue())
        os.chdir(home)
        shutil.rmtree(place)
        print(json.dumps([code, wrong, err.getvalue()[-1500:]]), file=told, flush=True)


def _wrong(home: Path, place: Path, case: Case, code: int, out: str) -> str:
    """Say what is wrong with an answer; a dash in front where there is no judge of it."""
    if code:
        return ""
    if case.kind.startswith("audit"):
        right, said = judged(case.name, case.content), json.loads(out)["audits"][0]
        return differs(said, right) if right is not None and said["kind"] in ("logits", "probs") else "-"
    if case.name == "c.json":
        return _repaired(place)
    if case.kind.startswith("resume"):
        files = [f"run/predictions/{split}.npz" for split in ("train", "calibration", "test")]
        whole = case.folder == "begun"
        bad = [
            name for name in files if whole and (place / name).read_bytes() != (home / "finished" / name).read_bytes()
        ]
        return f"other bytes in {', '.join(bad)}" if bad else "" if whole else "-"
    return "-"


def _repaired(place: Path) -> str:
    held = json.loads((place / "c.json").read_text())
    with np.load(place / "good.npz") as before, np.load(place / "repaired.npz") as after:
        wanted = before["logits"] / float(held["temperature"])
        wanted = (
            wanted
            - np.log(np.exp(wanted - wanted.max(1, keepdims=True)).sum(1, keepdims=True))
            - wanted.max(1, keepdims=True)
        )
        return "" if np.allclose(wanted, after["logits"], atol=1e-3) else "other logits than logits / T"


def _count(tally: Tally, case: Case, code: int, wrong: str, err: str) -> None:
    tally.cases[case.kind] += 1
    fault = _fault(code, wrong, err)
    if not code:
        tally.answered["answered"] += 1
        tally.answered["of these judged"] += wrong != "-"
    if fault:
        tally.faults[fault] += 1
        tally.said.append(
            f"{fault}: {case.words} ({case.name}, {case.kind}): {(wrong if fault == 'wrong' else err)[-400:]}"
        )
        if kept := os.environ.get("TORTURE_KEEP"):
            Path(kept).mkdir(exist_ok=True)
            Path(kept, f"{len(tally.said)}-{case.name.replace('/', '_')}").write_bytes(case.content)


def _fault(code: int, wrong: str, err: str) -> str:
    tests: dict[str, Callable[[], bool]] = {
        "hang": lambda: err == "HANG",
        "killed": lambda: err.startswith("KILLED"),
        "traceback": lambda: "Traceback" in err,
        "unexpected": lambda: "unexpected" in err,
        "memory": lambda: "enough memory" in err,
        "wrong": lambda: not code and wrong not in ("", "-"),
    }
    return next((name for name, is_so in tests.items() if is_so()), "")
