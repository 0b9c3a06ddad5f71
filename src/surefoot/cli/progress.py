"""A live display: of runs, one bar each and one for all; of a file, how much was read or came; with the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from surefoot.cli.pace import Pace
from surefoot.harmless import harmless
from surefoot.report.numbers import show_seconds
from surefoot.studies.engine import Job, Listener, News

BARS = 8  # of single runs, at most: on many machines there are more than a terminal has lines
LINE_EVERY = 60.0  # seconds after which a line is due where no terminal is, though no run has ended


class _Display:
    """Shows news. On a terminal as moving bars; elsewhere as one line per finished run, and one a minute for all."""

    def __init__(self, bars: Progress, jobs: Sequence[Job]) -> None:
        self.bars = bars
        self.pace = Pace(jobs)
        self.n_runs = len(self.pace.work)
        self.tasks: dict[Path, TaskID] = {}
        self.all = bars.add_task("all runs", total=sum(self.pace.work.values()), note=f"0/{self.n_runs} done")
        self.finished = 0
        self.failed = 0
        self.running: set[Path] = set()
        self.printed = time.monotonic()

    def __call__(self, news: News) -> None:
        path = news.job.path
        if news.done or news.error:
            self._end(news)
        else:
            self.running.add(path)
            self.pace.go_on(path, news.step / max(1, news.n_steps), time.monotonic())
            if path not in self.tasks and len(self.tasks) < BARS:
                self.tasks[path] = self.bars.add_task(_name(news.job), total=news.n_steps, note="")
            if path in self.tasks:
                note = "" if news.loss is None else f"loss {news.loss:.3f}"
                self.bars.update(self.tasks[path], completed=news.step, note=note)
            if not self.bars.console.is_terminal and time.monotonic() - self.printed > LINE_EVERY:
                self._print("all runs: going on")
        self.bars.update(self.all, completed=self.pace.done, note=self._count())

    def _end(self, news: News) -> None:
        path = news.job.path
        self.running.discard(path)
        if news.again:
            self.pace.begin_anew(path)
        else:
            self.pace.end(path, time.monotonic())
        self.finished += news.done
        self.failed += news.error is not None and not news.again
        if path in self.tasks:
            self.bars.remove_task(self.tasks.pop(path))
        if news.error or not self.bars.console.is_terminal:
            said = f"{news.error or news.stopped or 'done'}{' It is tried once more.' if news.again else ''}"
            self._print(f"{_name(news.job)}: {said}")

    def _print(self, what: str) -> None:
        line = f"{what} [{self._count()}{self._left()}]"
        self.bars.console.print(harmless(line), highlight=False, markup=False, soft_wrap=True)
        self.printed = time.monotonic()

    def _count(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.finished}/{self.n_runs} done, {len(self.running)} running{failed}"

    def _left(self) -> str:
        seconds = self.pace.left(time.monotonic())
        return "" if seconds is None else f", about {show_seconds(seconds)} left"


def _name(job: Job) -> str:
    return f"{job.spec.method.label}, seed {job.spec.seed}"


@contextmanager
def _bars() -> Iterator[Progress]:
    """Show the bars of every command: on stderr, gone when done, none where no terminal is.

    While they are there, what packages print goes to stderr too, as Ray does when a worker dies: it is no result.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    console = Console(stderr=True)
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with redirect_stdout(sys.stderr), bars:
        yield bars


@contextmanager
def showing(jobs: Sequence[Job]) -> Iterator[Listener]:
    """Show runs on stderr while the block lasts.

    Args:
        jobs: All of them.
    """
    with _bars() as bars:
        yield _Display(bars, jobs)


@contextmanager
def following() -> Iterator[Callable[[Sequence[Job]], Listener]]:
    """Show runs on stderr while the block lasts, from when it is known which ones."""
    with _bars() as bars:
        yield lambda jobs: _Display(bars, jobs)


@contextmanager
def reading(name: str) -> Iterator[Callable[[int, float | None], None]]:
    """Show how much of a file has been read while the block lasts; a short file needs no bar.

    Args:
        name: The file.
    """
    with _bars() as bars:
        yield _on_rows(bars, harmless(name))


@contextmanager
def fitting(name: str) -> Iterator[tuple[Callable[[int, float | None], None], Callable[[int, int, str], None]]]:
    """Show how much of a file has been read, and then how many calibrators have been fitted.

    Args:
        name: The file.
    """
    with _bars() as bars:
        task: list[TaskID] = []

        def on_step(done: int, total: int, note: str) -> None:
            if not task:
                task.append(bars.add_task("comparing calibrators", total=total, note=""))
            bars.update(task[0], completed=done, total=total, note=note)

        yield _on_rows(bars, harmless(name)), on_step


def _on_rows(bars: Progress, name: str) -> Callable[[int, float | None], None]:
    task: list[TaskID] = []

    def on_rows(rows: int, share: float | None) -> None:
        if share == 1.0 and not task:
            return
        if not task:
            task.append(bars.add_task(f"reading {name}", total=1.0, note=""))
        note = f"{rows:,} rows" if share != 1.0 else "measuring"
        bars.update(task[0], completed=share, total=1.0 if share is not None else None, note=note)

    return on_rows


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show how much of each file has come while the block lasts."""
    with _bars() as bars:
        tasks: dict[str, TaskID] = {}

        def on_bytes(name: str, have: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(harmless(name), total=total, note="")
            bars.update(tasks[name], completed=have, total=total, note=f"{have / 1e6:,.1f} MB")

        yield on_bytes


@contextmanager
def counting(name: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show how many of some measurements are done while the block lasts.

    Args:
        name: What is measured.
    """
    with _bars() as bars:
        task = bars.add_task(harmless(name), total=None, note="")
        yield lambda done, total, note: bars.update(task, completed=done, total=total, note=note)
