"""Which files belong to a run: only these are ever replaced or removed.

A folder is a run folder if its ``spec.json`` is one that we wrote. In any other folder, whatever has a name that a run
would use is somebody's own, and the run is refused. In a run folder, what has another name stays where it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surefoot.atomic import remove_left
from surefoot.errors import InputError
from surefoot.schema import SPLITS

SPEC = "spec.json"
FILES = (
    *("done.json", "checksums.json", "environment.json", "steps.jsonl", "timing.jsonl", "splits.npz", "run.toml"),
    *("measures.jsonl", "tracked.jsonl", "shift.jsonl"),
)
PREDICTIONS = tuple(f"{split}.npz" for split in SPLITS)
_CHECKPOINT = re.compile(r"step-\d{8,}|\.step-\d{8,}\.\d+\.(tmp|old)")
_CHECKPOINTED = re.compile(
    r"(model|state|member-\d{4,}|shard-\d+-model-\d+-of-\d+)\.safetensors|(state|checksums)\.json|\.checksums\.json\.\d+\.tmp"
    r"|\.tmp[A-Za-z0-9]{6}"  # what safetensors has not renamed yet when it is killed
)


def read_header(path: Path) -> dict[str, Any] | None:
    """Read what ``spec.json`` says; None where it is not there or not ours.

    Args:
        path: The run folder.

    Returns:
        Id, spec and data of the run.
    """
    try:
        header = json.loads((path / SPEC).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        return None
    ours = isinstance(header, dict) and isinstance(header.get("id"), str) and isinstance(header.get("spec"), dict)
    return header if ours else None


def check_ours(path: Path) -> None:
    """Refuse a folder that holds somebody's own files where a run would write.

    Args:
        path: Where a run is to be.

    Raises:
        InputError: If there are any; it names them.
    """
    if read_header(path) is not None:
        return
    found = [name for name in (SPEC, *FILES) if (path / name).exists()]
    for name in ("checkpoint", "predictions"):
        inside = path / name
        if inside.is_dir():
            found += sorted(f"{name}/{item.name}" for item in inside.iterdir())
        elif inside.exists():
            found.append(name)
    if found:
        shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        raise InputError(
            f"Expected {path} to be empty or to hold a run, but it holds files that surefoot did not write: {shown}. "
            "Choose another --out; nothing was changed."
        )


def remove_run(path: Path) -> None:
    """Remove everything that belongs to a run, and nothing else. ``spec.json`` goes last: it says that it is a run."""
    _remove([path / name for name in FILES])
    _remove_folder(path / "predictions", [path / "predictions" / name for name in PREDICTIONS])
    for checkpoint in checkpoints(path / "checkpoint", aside=True):
        remove_checkpoint(checkpoint)
    _remove_folder(path / "checkpoint", [])
    _remove([path / SPEC])


def checkpoints(folder: Path, *, aside: bool = False) -> Iterator[Path]:
    """List the checkpoints that we wrote, the oldest first.

    Args:
        folder: Holds the checkpoints of one run.
        aside: Whether to list half-written and replaced ones as well.

    Yields:
        Their folders.
    """
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _CHECKPOINT.fullmatch(path.name) and path.is_dir():
            is_whole = path.name.startswith("step-") and (path / "state.json").exists()
            if is_whole or aside:
                yield path


def remove_checkpoint(path: Path, heir: Path | None = None) -> None:
    """Remove a checkpoint: first the file by which it counts as one, then the others.

    Args:
        path: Its folder.
        heir: The checkpoint that took its place, if one did: what somebody else put into the old one moves there.
    """
    inside = list(path.iterdir())
    ours = [file for file in inside if _CHECKPOINTED.fullmatch(file.name)]
    if heir is not None:
        for file in inside:
            if file not in ours:
                file.rename(heir / file.name)
    _remove_folder(path, sorted(ours, key=lambda file: file.name != "state.json"))


def _remove(files: list[Path]) -> None:
    for file in files:
        if file.is_file() or file.is_symlink():
            file.unlink(missing_ok=True)
        if file.parent.is_dir():
            remove_left(file)


def _remove_folder(path: Path, files: list[Path]) -> None:
    """Remove files of a folder, and the folder if nothing else is in it."""
    _remove(files)
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
