"""Where data are looked for: a path that was given, else ``$SUREFOOT_DATA``, else the user's cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from surefoot.errors import InputError


@dataclass(frozen=True)
class DataFile:
    """A file by which a data set is recognised.

    Attributes:
        file: Its name.
        folder: Where it is below a place of the search path; a path that is given may be this folder itself.
        outside: A folder beyond the search path where some system packages put it.
    """

    file: str
    folder: str = ""
    outside: str | None = None


def cache() -> Path:
    """Name the folder for data of this user: ``$XDG_CACHE_HOME/surefoot``, or ``~/.cache/surefoot``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "surefoot"


def search_path() -> list[Path]:
    """List the folders that are searched: those of ``$SUREFOOT_DATA``, then the user's cache."""
    named = os.environ.get("SUREFOOT_DATA", "").split(os.pathsep)
    return [*(Path(name).expanduser() for name in named if name), cache()]


def candidates(path: str) -> list[Path]:
    """List where a path may mean: from here, then from the folders that are searched."""
    place = Path(path).expanduser()
    return [place, *(folder / path for folder in search_path() if not place.is_absolute())]


def find(marks: Sequence[DataFile], path: str | None = None) -> Path | None:
    """Find the first file that marks a data set.

    Args:
        marks: What to look for, the best first.
        path: Look here and nowhere else: a folder that holds the data's folder, that folder, or the file itself.

    Returns:
        The file; None if there is none.
    """
    if path is not None:
        place = Path(path).expanduser()
        if place.is_file():
            return place
        inside = (place / name for mark in marks for name in (Path(mark.folder, mark.file), Path(mark.file)))
        return next((file for file in inside if file.exists()), None)
    for place in search_path():
        for mark in marks:
            if (file := place / mark.folder / mark.file).exists():
                return file
    outside = (Path(mark.outside, mark.file) for mark in marks if mark.outside)
    return next((file for file in outside if file.exists()), None)


def locate(name: str, marks: Sequence[DataFile], path: str | None = None, *, get: str | None = None) -> Path:
    """Find a data set, or say what to do.

    Args:
        name: The data set.
        marks: Files that it is recognised by.
        path: Look here and nowhere else.
        get: What ``surefoot data get`` calls it; None if it cannot be downloaded.

    Returns:
        The marking file.

    Raises:
        InputError: If it is not there.
    """
    found = find(marks, path)
    if found is not None:
        return found
    wanted = " or ".join(dict.fromkeys(str(Path(mark.folder, mark.file)) for mark in marks))
    where = path if path is not None else " or ".join(map(str, search_path()))
    # Where a path was given, the files go there, so that the same command works afterwards.
    to = f" --to {path}" if path is not None else ""
    todo = f"Run `surefoot data get {get}{to}`, or say where they are" if get else "Say where they are"
    raise InputError(
        f"Expected the files of {name} ({wanted}) in {where}, but they are not there. {todo}: path=FOLDER."
    )
