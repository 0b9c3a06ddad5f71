"""What goes wrong at an address elsewhere, told in one line, whichever file system it is in and whenever it happens."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from surefoot.errors import InputError, SurefootError
from surefoot.harmless import harmless

OURS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # what is wrong with this machine's disk
_BUFFER = 1 << 16


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Tell what a file system elsewhere cannot do.

    Args:
        address: What is asked for, for the message.

    Raises:
        InputError: In the place of whatever the file system raises, but for what is wrong with this machine's disk.
    """
    try:
        yield
    except SurefootError:
        raise
    except Exception as error:  # each file system has exceptions of its own
        if isinstance(error, OSError) and error.errno in OURS:
            raise
        raise InputError(
            f"Expected to reach {address}, but it fails ({type(error).__name__}: {reason_of(error)}). "
            "Check the address, the connection and your credentials, and run the same command again."
        ) from error


def reason_of(error: Exception) -> str:
    """Return the first line of what an error says, harmless and without its full stop, to stand in a sentence."""
    return harmless(next(iter(str(error).strip().splitlines()), "").rstrip("."))


def reached(file: IO[bytes], address: str) -> IO[bytes]:
    """Read a file elsewhere; a connection that is lost in the midst is told as that, not as a damaged file.

    Args:
        file: Opened there, to be read.
        address: Where it is, for messages.

    Returns:
        The same bytes.
    """
    return io.BufferedReader(_Reached(file, address), _BUFFER)


class _Reached(io.RawIOBase):
    def __init__(self, file: IO[bytes], address: str) -> None:
        self._file, self._address = file, address

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: Any) -> int:
        with reaching(self._address):
            found = self._file.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with reaching(self._address):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
