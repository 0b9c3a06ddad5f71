"""Finished runs below some folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from surefoot.errors import InputError
from surefoot.records.store import RunFolder


def find_runs(paths: Iterable[Path | str]) -> list[RunFolder]:
    """Collect finished runs.

    Args:
        paths: Run folders, or folders that hold some.

    Returns:
        The finished runs, each once, in the order of the paths; within a folder the cheapest first.

    Raises:
        InputError: If a path does not exist or holds no finished run.
    """
    found: dict[Path, RunFolder] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise InputError(f"Expected a folder with runs, but {path} does not exist. Run `surefoot compare` first.")
        here = [path] if (path / "spec.json").exists() else sorted(p.parent for p in path.glob("*/spec.json"))
        runs = sorted((run for run in map(RunFolder, here) if run.done()), key=_cost)
        if not runs:
            raise InputError(
                f"Expected finished runs, but {path} holds none. Let `surefoot compare` or `train` finish."
            )
        found.update((run.path.resolve(), run) for run in runs)
    return list(found.values())


def _cost(run: RunFolder) -> tuple[int, str]:
    return (run.done() or {}).get("passes", 0), run.path.name
