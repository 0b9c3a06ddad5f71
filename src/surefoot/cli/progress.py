"""A live display: of runs, one bar each and one for all; of a file, how much was read or came; with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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

from surefoot.studies.engine import Job, Listener, News


class _Display:
    """Shows news. On a terminal as moving bars; elsewhere as one line per finished run."""

    def __init__(self, bars: Progress, weights: Mapping[Path, float]) -> None:
        self.bars = bars
        self.weights = weights
        self.shares = dict.fromkeys(weights, 0.0)
        self.tasks: dict[Path, TaskID] = {}
        self.all = bars.add_task("all runs", total=sum(weights.values()), note=f"0/{len(weights)} done")
        self.finished = 0

    def __call__(self, news: News) -> None:
        path = news.job.path
        if news.done or news.error:
            self.finished += 1
            self.shares[path] = 1.0
            if path in self.tasks:
                self.bars.remove_task(self.tasks.pop(path))
            if news.error or not self.bars.console.is_terminal:
                self.bars.console.print(f"{_name(news.job)}: {news.error or 'done'}", highlight=False, markup=False)
        else:
            if path not in self.tasks:
                self.tasks[path] = self.bars.add_task(_name(news.job), total=news.n_steps, note="")
            self.shares[path] = news.step / max(1, news.n_steps)
            note = "" if news.loss is None else f"loss {news.loss:.3f}"
            self.bars.update(self.tasks[path], completed=news.step, note=note)
        work = sum(self.weights[path] * share for path, share in self.shares.items())
        self.bars.update(self.all, completed=work, note=f"{self.finished}/{len(self.weights)} done")


def _name(job: Job) -> str:
    return f"{job.spec.method.label}, seed {job.spec.seed}"


def _bars() -> Progress:
    """Make the bars that every command shows: on stderr, gone when done, none where no terminal is."""
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
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


@contextmanager
def showing(weights: Mapping[Path, float]) -> Iterator[Listener]:
    """Show runs on stderr while the block lasts.

    Args:
        weights: How much work each run is, by its folder.
    """
    with _bars() as bars:
        yield _Display(bars, weights)


@contextmanager
def reading(name: str) -> Iterator[Callable[[int, float | None], None]]:
    """Show how much of a file has been read while the block lasts; a short file needs no bar.

    Args:
        name: The file.
    """
    with _bars() as bars:
        task: list[TaskID] = []

        def on_rows(rows: int, share: float | None) -> None:
            if share == 1.0 and not task:
                return
            if not task:
                task.append(bars.add_task(f"reading {name}", total=1.0, note=""))
            note = f"{rows:,} rows" if share != 1.0 else "measuring"
            bars.update(task[0], completed=share, total=1.0 if share is not None else None, note=note)

        yield on_rows


@contextmanager
def downloading() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show how much of each file has come while the block lasts."""
    with _bars() as bars:
        tasks: dict[str, TaskID] = {}

        def on_bytes(name: str, have: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total, note="")
            bars.update(tasks[name], completed=have, total=total, note=f"{have / 1e6:,.1f} MB")

        yield on_bytes


@contextmanager
def counting(name: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show how many of some measurements are done while the block lasts.

    Args:
        name: What is measured.
    """
    with _bars() as bars:
        task = bars.add_task(name, total=None, note="")
        yield lambda done, total, note: bars.update(task, completed=done, total=total, note=note)
