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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import _torture_folders as folders
import _torture_judges as judges
import numpy as np
from _torture_cases import LIMIT, SAVED, Case, cases, prepare
from _torture_inputs import understood
from _torture_reader import Rows, read, softmax
from tests.crashes import nursery

SLOWEST, MOST = 60, 2 << 30  # seconds of the processor, bytes beside what a process has at first
TOGETHER = 25
FAULTS = ("traceback", "unexpected", "hang", "memory", "killed", "wrong")


@dataclass
class Tally:
    """How many of what.

    Attributes:
        cases: How many there were of each kind.
        faults: How many of each fault.
        answered: How many were answered, of each kind.
        judged: How many of these somebody else could answer as well.
        said: The first of each fault, for whoever repairs it.
    """

    cases: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)


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
        for name, content in case.files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        os.chdir(place)
        sys.stdin = io.TextIOWrapper(io.BytesIO(case.content if case.name.startswith("-") else b""))
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
    """Say what is wrong with an answer; a dash where nobody can tell."""
    if code and not (code == 1 and case.words.startswith("check")):
        return ""
    try:
        return _judged(home, place, case, out)
    except Exception as error:  # a judge that cannot make sense of an answer is to be looked at, too
        return f"the judge failed: {type(error).__name__}: {error}"


def _judged(home: Path, place: Path, case: Case, out: str) -> str:
    command = case.words.split()[0]
    said = json.loads(out) if "--json" in case.words else {}
    if case.input:
        (one,) = said["audits"]
        rows = understood(case.input, case.name, case.files, one["took"])
        return judges.audit(one, rows) or (judges.groups(one, case.content) if case.input == "groups" else "")
    if case.name in SAVED:
        judge: dict[str, Callable[[], str]] = {
            "c.json": lambda: judges.repaired(place, case.name),
            "c.safetensors": lambda: judges.repaired(place, case.name),
            "sets.json": lambda: judges.with_sets(place),
            "baseline.json": lambda: judges.baseline(said, place),
        }
        return judge.get(case.name, lambda: folders.trained(place, case.name, case.words))()
    if case.folder != "files":
        if command == "train":
            return folders.resumed(home, place, case.folder, case.name)
        return folders.reported(said, place) if command == "report" else folders.tracked(said, home, place)
    if command == "estimate":
        with np.load(place / "good.npz") as good:
            reference = Rows(softmax(good["logits"]), good["labels"], np.ones(len(good["labels"])))
        rows = read(case.name, case.content, said["took"].partition(";")[0])
        return judges.estimate(said, reference, None if rows is None else len(rows.probs))
    took = said["audits"][0]["took"] if command == "audit" else said["took"]
    rows = read(case.name, case.content, took)
    if command == "calibrate":
        return judges.temperature(place / "fitted.json", rows)
    if command == "conformal":
        return judges.quantile(place / "fitted-sets.json", rows)
    return judges.check(said, rows, LIMIT) if command == "check" else judges.audit(said["audits"][0], rows)


def _count(tally: Tally, case: Case, code: int, wrong: str, err: str) -> None:
    tally.cases[case.kind] += 1
    fault = _fault(code, wrong, err)
    if not code:
        tally.answered[case.kind] += 1
        tally.judged[case.kind] += wrong != judges.UNKNOWN
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
        "wrong": lambda: wrong not in ("", judges.UNKNOWN),
    }
    return next((name for name, is_so in tests.items() if is_so()), "")
