"""Archives, unpacked beside their place and moved there whole; nothing may land anywhere else."""

from __future__ import annotations

import stat
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from surefoot.errors import InputError


def is_archive(path: Path) -> bool:
    """Return whether a file is to be unpacked, by its name."""
    return path.name.endswith((".tar", ".tar.gz", ".tgz", ".zip"))


def unpack(archive: Path, folder: Path) -> list[Path]:
    """Unpack a tar or zip archive.

    Args:
        archive: The file.
        folder: Where its top folders and files go; those of the same name are replaced.

    Returns:
        What was put there.

    Raises:
        InputError: If it is damaged, or a member has an absolute path, leaves the folder, or is a link or a device.
            Nothing is put into the folder then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as aside:
        try:
            if archive.suffix == ".zip":
                _unzip(archive, Path(aside))
            else:
                _untar(archive, Path(aside))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
            raise InputError(f"Expected to unpack {archive}, but {error}. Get the file again.") from error
        return [_place(item, folder / item.name) for item in sorted(Path(aside).iterdir())]


def _place(item: Path, target: Path) -> Path:
    """Put what was unpacked in its place; what else is in a folder of the same name stays there."""
    if item.is_dir() and target.is_dir():
        for inner in sorted(item.iterdir()):
            _place(inner, target / inner.name)
        return target
    if target.exists() and target.is_dir() != item.is_dir():
        raise InputError(f"Expected room for {target.name}, but {target} is something else. Move it away.")
    return item.replace(target)


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            _check_name(member.name, archive)
            if not (member.isfile() or member.isdir()):
                raise InputError(f"Expected files and folders in {archive}, but {member.name} is a link or a device.")
            tar.extract(member, folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as unzip:
        for member in unzip.infolist():
            _check_name(member.filename, archive)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise InputError(f"Expected files and folders in {archive}, but {member.filename} is a link.")
            unzip.extract(member, folder)


def _check_name(name: str, archive: Path) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name.split("/")[0]:
        raise InputError(f"Expected {archive} to stay in its folder, but it has {name!r}. Do not trust it.")
