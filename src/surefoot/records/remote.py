"""Run folders at an address: any file system that fsspec knows, such as ``s3://bucket/runs`` or ``file:///mnt/runs``.

A run is one archive there, put in place by one move: whoever fetches it sees a whole state of the run or none. One
that is finished is ``NAME.tar``; until then it is ``NAME.part.tar``.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

from surefoot.errors import InputError
from surefoot.places import file_system
from surefoot.reaching import OURS, reaching, reason_of
from surefoot.records._ownership import check_ours
from surefoot.records.store import RunFolder

CACHES = Path("surefoot-runs")
DONE, PART = ".tar", ".part.tar"
_END = bytes(1024)  # of every archive


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
    with reaching(address):
        system.makedirs(root, exist_ok=True)


def finished_at(address: str) -> set[str]:
    """Return the names of the finished runs in a folder at an address."""
    system, root = file_system(address)
    with reaching(address):
        if not system.exists(root):
            return set()
        system.invalidate_cache()
        names = [str(path).rstrip("/").rpartition("/")[2] for path in system.ls(root, detail=False)]
    return {name.removesuffix(DONE) for name in names if name.endswith(DONE) and not name.endswith(PART)}


def send_file(path: Path, address: str) -> None:
    """Copy a file into a folder at an address."""
    system, root = file_system(address)
    with reaching(address):
        system.makedirs(root, exist_ok=True)
        system.put_file(str(path), f"{root}/{path.name}")


def fetch_file(address: str, path: Path) -> None:
    """Copy the file of the same name from a folder at an address, if there is one."""
    system, root = file_system(address)
    with reaching(address):
        if system.exists(f"{root}/{path.name}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(f"{root}/{path.name}", str(path))


def remove(address: str) -> None:
    """Remove a folder at an address, with everything in it."""
    system, root = file_system(address)
    with reaching(address):
        if system.exists(root):
            system.rm(root, recursive=True)


def upload(folder: Path, address: str) -> None:
    """Copy a run folder to an address.

    Args:
        folder: The local folder.
        address: Of the run there, without ending.
    """
    system, target = file_system(address)
    with reaching(address), tempfile.TemporaryDirectory() as home:
        system.makedirs(target.rpartition("/")[0], exist_ok=True)
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
        InputError: If the local folder holds somebody's own files where those of the run would go, or the archive there
            is damaged or cannot be reached.
    """
    system, target = file_system(address)
    with tempfile.TemporaryDirectory() as home:
        packed, run = Path(home, "run.tar"), Path(home, "run")
        with reaching(address):
            system.invalidate_cache()  # others write there
            ending = next((each for each in (DONE, PART) if system.exists(f"{target}{each}")), None)
            if ending is None:
                return False
            system.get_file(f"{target}{ending}", str(packed))
        check_ours(folder)
        _unpack(packed, run, f"{address}{ending}")
        shutil.copytree(run, folder, dirs_exist_ok=True)
    return True


def _unpack(packed: Path, run: Path, there: str) -> None:
    """Unpack an archive beside the run's folder: one that is damaged leaves nothing there."""
    run.mkdir()
    try:
        if not _ends_well(packed):
            raise tarfile.TarError("it is cut off")
        with tarfile.open(packed, "r:") as archive:
            members = archive.getmembers()
            if odd := next((each.name for each in members if not each.isfile()), None):
                raise tarfile.TarError(f"{odd!r} is no file")
            archive.extractall(run, members, filter="data")
    except (tarfile.TarError, ValueError, EOFError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno in OURS:
            raise
        raise InputError(
            f"Expected the archive of a run, but {there} is damaged or none ({reason_of(error)}). "
            "Remove it there, and run the same command again to make the run anew."
        ) from error


def _ends_well(packed: Path) -> bool:
    """Return whether the end of an archive is there: one that is cut between two files looks whole otherwise."""
    with packed.open("rb") as file:
        file.seek(max(0, packed.stat().st_size - len(_END)))
        return file.read() == _END
