"""Run folders at an address: any file system that fsspec knows, such as ``s3://bucket/runs`` or ``file:///mnt/runs``.

A run is one archive there, put in place by one move: whoever fetches it sees a whole state of the run or none.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.records._ownership import check_ours


def upload(folder: Path, address: str) -> None:
    """Copy a run folder to an address.

    Args:
        folder: The local folder.
        address: Of the run there, without ending.
    """
    system, target = _open(address)
    system.makedirs(target.rpartition("/")[0], exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        packed = Path(home) / "run.tar"
        with tarfile.open(packed, "w") as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file() and file.name != ".lock":
                    archive.add(file, str(file.relative_to(folder)))
        aside = f"{target}.{os.getpid()}.part"
        system.put_file(str(packed), aside)
        system.mv(aside, f"{target}.tar")


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
    system, target = _open(address)
    if not system.exists(f"{target}.tar"):
        return False
    check_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        system.get_file(f"{target}.tar", f"{home}/run.tar")
        with tarfile.open(f"{home}/run.tar") as archive:
            archive.extractall(folder, filter="data")
    return True


def _open(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise InputError("Expected fsspec to be installed, but it is not. Run pip install 'surefoot[ray]'.") from error
    try:
        system, root = url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise InputError(f"Expected an address that fsspec knows, but got {address!r}: {error}. Check it.") from error
    return system, str(root).rstrip("/")
