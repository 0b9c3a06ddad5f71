"""Run folders at an address: any file system that fsspec knows, such as ``s3://bucket/runs`` or ``file:///mnt/runs``.

A run is one archive there, put in place by one move: whoever fetches it sees a whole state of the run or none. One
that is finished is ``NAME.tar``; until then it is ``NAME.part.tar``.
"""

from __future__ import annotations

import os
import re
import tarfile
import tempfile
from pathlib import Path

from surefoot.errors import InputError
from surefoot.places import file_system
from surefoot.records._ownership import check_ours
from surefoot.records.store import RunFolder

CACHES = Path("surefoot-runs")
DONE, PART = ".tar", ".part.tar"


def is_address(place: Path | str) -> bool:
    """Return whether a place is named by an address, not by a path.

    Example:
        >>> is_address("s3://bucket/runs"), is_address("/mnt/runs")
        (True, False)
    """
    return isinstance(place, str) and "://" in place


def cache_of(address: str) -> Path:
    """Return the folder in which what lies at an address is kept on this machine.

    Example:
        >>> cache_of("s3://bucket/runs").as_posix()
        'surefoot-runs/s3-bucket-runs'
    """
    return CACHES / re.sub(r"[^\w.]+", "-", address).strip("-")


def check_address(address: str) -> None:
    """Find out, before hours of training, whether something can be kept at an address.

    Args:
        address: Of a folder.

    Raises:
        InputError: If it cannot.
    """
    system, root = file_system(address)
    try:
        system.makedirs(root, exist_ok=True)
    except Exception as error:  # each file system has exceptions of its own
        raise InputError(
            f"Expected to keep runs at {address}, but it cannot be written ({type(error).__name__}: {error}). "
            "Check the address and your credentials."
        ) from error


def finished_at(address: str) -> set[str]:
    """Return the names of the finished runs in a folder at an address."""
    system, root = file_system(address)
    if not system.exists(root):
        return set()
    system.invalidate_cache()
    names = [str(path).rstrip("/").rpartition("/")[2] for path in system.ls(root, detail=False)]
    return {name.removesuffix(DONE) for name in names if name.endswith(DONE) and not name.endswith(PART)}


def send_file(path: Path, address: str) -> None:
    """Copy a file into a folder at an address."""
    system, root = file_system(address)
    system.makedirs(root, exist_ok=True)
    system.put_file(str(path), f"{root}/{path.name}")


def fetch_file(address: str, path: Path) -> None:
    """Copy the file of the same name from a folder at an address, if there is one."""
    system, root = file_system(address)
    if system.exists(f"{root}/{path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(f"{root}/{path.name}", str(path))


def remove(address: str) -> None:
    """Remove a folder at an address, with everything in it."""
    system, root = file_system(address)
    if system.exists(root):
        system.rm(root, recursive=True)


def upload(folder: Path, address: str) -> None:
    """Copy a run folder to an address.

    Args:
        folder: The local folder.
        address: Of the run there, without ending.
    """
    system, target = file_system(address)
    system.makedirs(target.rpartition("/")[0], exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        packed = Path(home) / "run.tar"
        with tarfile.open(packed, "w") as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.name != ".lock":
                    archive.add(file, str(file.relative_to(folder)))
        aside = f"{target}.{os.getpid()}.aside"
        system.put_file(str(packed), aside)
        is_done = RunFolder(folder).done() is not None
        system.mv(aside, f"{target}{DONE if is_done else PART}")
        if is_done and system.exists(f"{target}{PART}"):
            system.rm_file(f"{target}{PART}")


def download(address: str, folder: Path) -> bool:
    """Copy a run folder from an address.

    Args:
        address: Of the run there, without ending.
        folder: The local folder; what it holds of a run under the same names is replaced.

    Returns:
        Whether there was anything.

    Raises:
        InputError: If the local folder holds somebody's own files where those of the run would go.
    """
    system, target = file_system(address)
    system.invalidate_cache()  # others write there
    found = next((f"{target}{ending}" for ending in (DONE, PART) if system.exists(f"{target}{ending}")), None)
    if found is None:
        return False
    check_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        system.get_file(found, f"{home}/run.tar")
        with tarfile.open(f"{home}/run.tar") as archive:
            archive.extractall(folder, filter="data")
    return True
