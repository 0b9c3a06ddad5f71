"""What is where, and how it gets here: the library side of ``surefoot data``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from surefoot.data._download import Progress, download
from surefoot.data._places import DataFile, find, search_path
from surefoot.data._published import PUBLISHED, Published
from surefoot.data._unpack import is_archive, unpack
from surefoot.errors import InputError
from surefoot.registry import DATA, unknown_name


@dataclass(frozen=True)
class Whereabouts:
    """Where a data set is.

    Attributes:
        name: The data set, or what else can be downloaded.
        status: ``embedded``, ``found``, ``missing`` or ``yours``, for those that read your own files.
        path: Where it was found.
        get: What ``surefoot data get`` calls it, if it can be downloaded.
        licence: In a word.
        about: In a line.
    """

    name: str
    status: Literal["embedded", "found", "missing", "yours"]
    path: str | None
    get: str | None
    licence: str | None
    about: str


def whereabouts() -> list[Whereabouts]:
    """Say of every data set, and of all else that can be downloaded, where it is."""
    rows = []
    for part in DATA:
        marks: Sequence[DataFile] = part.facts.get("marks", ())
        path = find(marks) if marks else None
        embedded, get = part.facts.get("embedded", False), part.facts.get("get")
        status: Literal["embedded", "found", "missing", "yours"]
        status = "embedded" if embedded else "found" if path else "missing" if marks else "yours"
        where = str(path.parent) if path else None
        rows.append(Whereabouts(part.name, status, where, get, part.facts.get("licence"), part.summary))
    for name, published in PUBLISHED.items():
        if name not in DATA:
            path = find(published.marks)
            where = str(path.parent) if path else None
            rows.append(Whereabouts(name, "found" if path else "missing", where, name, None, published.about))
    return sorted(rows, key=lambda row: row.name)


def get(
    name: str,
    to: Path | str | None = None,
    *,
    on_progress: Progress | None = None,
    published: Mapping[str, Published] = PUBLISHED,
) -> Path:
    """Download a data set and unpack it, unless it is there.

    Args:
        name: A name in the catalogue.
        to: The folder; else the first one of the search path.
        on_progress: Told how far each file is.
        published: The catalogue.

    Returns:
        The folder that holds the data.

    Raises:
        UnknownNameError: If there is no such name.
        InputError: If a file is not what its checksum says, or an archive is not to be trusted.
    """
    if name not in published:
        if name in DATA and DATA[name].facts.get("embedded"):
            raise InputError(f"Expected something to download, but {name} comes with the package. Use --data {name}.")
        raise unknown_name("download", name, published)
    wanted = published[name]
    place = Path(to).expanduser() if to is not None else search_path()[0]
    if place.exists() and not place.is_dir():
        raise InputError(f"Expected --to to be a folder, but {place} is a file. Choose another.")
    mark = wanted.marks[0]
    folder = place / wanted.folder
    for remote in wanted.files:
        if is_archive(Path(remote.file)):
            if (place / mark.folder / mark.file).exists():
                continue
            archive = download(remote, folder, on_progress=on_progress)
            unpack(archive, folder)
            archive.unlink()
        else:
            download(remote, folder, on_progress=on_progress)
    if not (place / mark.folder / mark.file).exists():
        raise InputError(f"Expected {mark.folder}/{mark.file} from {name}, but the archive has none. Report this.")
    return place / mark.folder
