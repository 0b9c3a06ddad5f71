"""Arrays as NumPy stores them, read row by row out of the file, compressed or not."""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np

from surefoot.errors import InputError
from surefoot.places import unzipped
from surefoot.sources.labels import Array

_UNREADABLE = (
    *(ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, tokenize.TokenError),
    *(EOFError, OSError, zipfile.BadZipFile, zlib.error, RuntimeError),
)
_MOST_VALUES = 1 << 46  # more than any file has


class StoredArray:
    """A stored array whose rows are read one after the other.

    Args:
        file: Positioned at the start of the ``.npy`` data.
        where: Its name, for messages.
    """

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file, self._where = file, where
        self.shape, self._fortran, self.dtype = self._header()
        self._whole: Array | None = None
        self._done = 0

    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
        try:
            version = np.lib.format.read_magic(self._file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            header: tuple[tuple[int, ...], bool, np.dtype[np.generic]] = read(self._file)
            _check_shape(header[0])
        except _UNREADABLE as error:
            raise InputError(
                f"Expected a NumPy array, but {self._where} is none ({_one_line(error)}). Save it with np.savez."
            ) from error
        return header

    def take(self, n: int) -> Array:
        """Read the next n rows."""
        if self.dtype.hasobject:
            raise InputError(
                f"Expected plain arrays, but {self._where} holds pickled objects, which could run code. "
                "Save numbers or texts: np.asarray(list(values))."
            )
        start, self._done = self._done, self._done + n
        if not self._fortran or len(self.shape) < 2:
            return self._read((n, *self.shape[1:]) if self.shape else ())
        if self._whole is None:  # stored column by column: no row is complete before the end
            self._whole = self._read(self.shape[::-1]).T
        return self._whole[start : start + n]

    def skip(self, n: int) -> None:
        """Leave out the next n rows."""
        if self._fortran and len(self.shape) > 1:
            self.take(n)
            return
        self._done += n
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        self._file.seek(n * width, 1)

    def take_flat(self, n: int) -> Array:
        """Read the next n values, whatever the axes; all rows are taken this way, or none."""
        if self.dtype.hasobject or not self.shape:
            return self.take(n).reshape(-1)
        start, self._done = self._done, self._done + n
        if not self._fortran:
            return self._read((n,))
        if self._whole is None:
            self._whole = self._read(self.shape[::-1]).T.reshape(-1)
        return self._whole[start : start + n]

    def _read(self, shape: tuple[int, ...]) -> Array:
        """Read straight into an array, so that no second copy is in memory."""
        values = np.empty(shape, self.dtype)
        if not values.nbytes:
            return values
        room, done = values.reshape(-1).view(np.uint8).data, 0
        try:
            while done < len(room):
                got = self._file.readinto(room[done : done + (1 << 22)])  # type: ignore[attr-defined]  # IO does not declare it
                if not got:
                    raise InputError(f"Expected a whole file, but {self._where} is cut off. Copy it again.")
                done += got
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InputError(
                f"Expected a whole file, but {self._where} is damaged ({_one_line(error)}). Copy it again."
            ) from error
        return values.astype(self.dtype.newbyteorder("="), copy=False)


def _check_shape(shape: tuple[int, ...]) -> None:
    if any(length < 0 for length in shape) or math.prod(shape) > _MOST_VALUES or len(shape) > 32:
        raise ValueError(f"its header says that its shape is {str(shape)[:80]}")


def arrays_in(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """Say what arrays there are, without reading them."""
    try:
        with unzipped(path) as archive:
            shapes = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as file:
                        rows = StoredArray(file, f"{path.name}:{name.removesuffix('.npy')}")
                        shapes[name.removesuffix(".npy")] = rows.shape, rows.dtype
    except RuntimeError as error:  # how zipfile asks for a password
        raise InputError(
            f"Expected an .npz file without a password, but {path.name} is encrypted or damaged ({_one_line(error)}). "
            "Save it with np.savez."
        ) from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise InputError(
            f"Expected an .npz file, but {path.name} is cut off, damaged or none ({_one_line(error)}). Copy it again."
        ) from error
    return shapes


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
