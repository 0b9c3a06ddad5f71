"""Paths of this machine and addresses elsewhere, read and written alike: ``s3://bucket/preds.parquet`` by fsspec."""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

from surefoot.errors import InputError
from surefoot.reaching import reached, reaching

_ADDRESS = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/+(?P<rest>.*)$", re.DOTALL)  # a drive has one letter
_WEB = ("http", "https")


class Address(type(Path())):  # type: ignore[misc]  # PosixPath or WindowsPath, as this machine has it
    """A path in a file system that fsspec knows; what is asked of it is asked there.

    Example:
        >>> place("s3://bucket/preds/test.npz").with_suffix(".csv")
        Address('s3://bucket/preds/test.csv')
        >>> place("https://example.org/test.npz?key=1").suffix
        '.npz'
    """

    def __str__(self) -> str:
        """Return the address as it is typed."""
        found = _ADDRESS.match(super().__str__().replace(os.sep, "/"))
        return f"{found['scheme']}://{found['rest']}" if found else super().__str__()

    def __fspath__(self) -> str:
        """Return the address."""
        return str(self)

    def __repr__(self) -> str:
        """Return the address, and that it is one."""
        return f"Address({str(self)!r})"

    @property
    def name(self) -> str:
        """The last part, without what a web address asks for behind it."""
        last = str(super().name)
        return last.partition("?")[0] if str(self).startswith(_WEB) else last

    def _system(self) -> tuple[Any, str]:
        return file_system(str(self))

    def is_file(self) -> bool:
        """Return whether there is such a file."""
        system, target = self._system()
        with reaching(str(self)):
            return bool(system.isfile(target))

    def is_dir(self) -> bool:
        """Return whether there is such a folder; the web has none."""
        system, target = self._system()
        with reaching(str(self)):
            return not str(self).startswith(_WEB) and bool(system.isdir(target))

    def exists(self, **_: Any) -> bool:
        """Return whether there is anything."""
        system, target = self._system()
        with reaching(str(self)):
            return bool(system.exists(target))

    def open(self, mode: str = "r", **options: Any) -> IO[Any]:
        """Open the file there; one that can only be read from its beginning is copied, to be read anywhere."""
        system, target = self._system()
        if "r" not in mode:
            file: IO[Any] = system.open(target, mode, **{k: v for k, v in options.items() if k != "buffering"})
            return file
        with reaching(str(self)):
            if str(self).startswith(_WEB) and not system.info(target).get("partial"):
                found: IO[Any] = tempfile.TemporaryFile()  # noqa: SIM115 — whoever asked closes it
                with system.open(target, "rb", block_size=0) as stream:
                    shutil.copyfileobj(stream, found)
                found.seek(0)
            else:
                found = reached(system.open(target, "rb"), str(self))
        return found if "b" in mode else io.TextIOWrapper(found, encoding=options.get("encoding"))

    def iterdir(self) -> Generator[Address, None, None]:
        """List what is in the folder."""
        system, target = self._system()
        with reaching(str(self)):
            found = system.ls(target, detail=False)
        yield from (Address(system.unstrip_protocol(each)) for each in found)

    def matches(self) -> list[Address]:
        """List the files that match the address as a pattern."""
        system, target = self._system()
        with reaching(str(self)):
            return [Address(system.unstrip_protocol(each)) for each in sorted(system.glob(target))]

    def size(self) -> int:
        """Return how many bytes the file has; 0 where nobody says."""
        system, target = self._system()
        with reaching(str(self)):
            return int(system.size(target) or 0)

    def glob(self, pattern: str) -> Generator[Address, None, None]:
        """List what matches a pattern below this folder."""
        yield from Address(f"{self}/{pattern}").matches()

    def samefile(self, other_path: Any) -> bool:
        """Return whether another address is the same."""
        return str(self) == str(other_path)

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing: folders are made when a file is written."""

    def expanduser(self) -> Address:
        """Return the same."""
        return self

    def resolve(self, strict: bool = False) -> Address:
        """Return the same."""
        return self

    def absolute(self) -> Address:
        """Return the same."""
        return self


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system that knows an address, and the path there.

    Args:
        address: As fsspec writes it; ``file://`` ones too.

    Raises:
        InputError: If there is none, or fsspec is not installed.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise InputError(
            f"Expected fsspec to be installed to reach {address}, but it is not. Run pip install 'surefoot[remote]'."
        ) from error
    try:
        system, target = url_to_fs(address)
    except (ValueError, ImportError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"Expected an address that fsspec can reach, but got {address}: {reason}. Check it."
        ) from error
    return system, str(target).rstrip("/")


def place(source: Path | str) -> Path:
    """Read a path of this machine or an address elsewhere.

    Args:
        source: As it was typed. An address may have lost a slash where it was taken for a path.

    Returns:
        A path, of which an address can be asked the same.

    Example:
        >>> place("file:///tmp/a.csv").as_posix(), place(Path("memory://a.csv"))
        ('/tmp/a.csv', Address('memory://a.csv'))
    """
    if isinstance(source, Address):
        return source
    found = _ADDRESS.match(str(source))
    if found is None:
        return Path(source).expanduser()
    if found["scheme"].lower() in ("file", "local"):
        return Path(f"/{found['rest']}")
    return Address(str(source))


def is_address(path: Path | str) -> bool:
    """Return whether a path is in another file system than this machine's."""
    return isinstance(place(path), Address)


def matching(path: Path) -> list[Path]:
    """List the files that match a pattern, in the order of their names."""
    if isinstance(path, Address):
        return [each for each in path.matches() if each.is_file()]
    return [each for each in map(Path, sorted(glob.glob(str(path), recursive=True))) if each.is_file()]


def size_of(path: Path) -> int:
    """Return how many bytes a file has."""
    return path.size() if isinstance(path, Address) else os.path.getsize(path)


@contextmanager
def unzipped(path: Path) -> Iterator[ZipFile]:
    """Open an archive, such as an ``.npz``, here or elsewhere."""
    with path.open("rb") as file, ZipFile(file) as archive:
        yield archive


@contextmanager
def fetched(path: Path | str) -> Iterator[Path]:
    """Read a small file here or elsewhere by a path of this machine.

    Args:
        path: Where it is.

    Yields:
        The same path; of an address that of a copy.
    """
    source = place(path)
    if not isinstance(source, Address):
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder, source.name)
        if source.is_file():
            with source.open("rb") as file:
                local.write_bytes(file.read())
        yield local


@contextmanager
def written(path: Path | str) -> Iterator[Path]:
    """Write a file here or elsewhere.

    Args:
        path: Where it is to be in the end.

    Yields:
        Where to write it: the same path; of an address a path of this machine, which is copied when all is written.
    """
    target = place(path)
    if not isinstance(target, Address):
        yield target
        return
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder, target.name)
        yield local
        system, there = target._system()
        with reaching(str(target)):
            system.makedirs(system._parent(there), exist_ok=True)
            system.put_file(str(local), there)
