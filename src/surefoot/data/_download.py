"""One file from the net: resumed where it stopped, checked before it gets its name."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from surefoot.data._published import Remote
from surefoot.errors import BusyError, InputError, RunError

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes that are there and, where it is known, how many there will be."""

_CHUNK = 1 << 18


class _Dropped(Exception):
    """The connection broke; what came is kept."""


def download(
    remote: Remote,
    folder: Path,
    *,
    on_progress: Progress | None = None,
    attempts: int = 5,
    pause: float = 1.0,
    timeout: float = 30.0,
) -> Path:
    """Fetch a file, or find that it is there.

    Args:
        remote: What to fetch.
        folder: Where to put it; while it is not whole it is called ``….part`` there, and the next call goes on.
        on_progress: Told how far it is.
        attempts: How often to go on after the connection broke.
        pause: Seconds before going on, twice as long each time.
        timeout: Seconds to wait for an answer.

    Returns:
        The whole, checked file.

    Raises:
        InputError: If the checksum is wrong, or the server has no such file.
        RunError: If the net cannot be reached, or breaks too often.
        BusyError: If another process is fetching the same file.
    """
    target = folder / remote.file
    if target.exists() and checksum(target, remote.algorithm) == remote.checksum:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BusyError(f"Expected to fetch {target.name} alone, but another process is at it. Wait.") from error
        for attempt in range(attempts):
            try:
                _fetch(remote, file, on_progress, timeout)
                break
            except _Dropped as error:
                if attempt == attempts - 1:
                    raise RunError(
                        f"Expected all of {remote.url}, but the connection broke {attempts} times ({error}). "
                        f"{file.tell()} bytes are kept; run the same command to go on."
                    ) from error
                time.sleep(pause * 2**attempt)
        file.flush()
        os.fsync(file.fileno())
        found = checksum(part, remote.algorithm)
        if found != remote.checksum:
            part.unlink()
            raise InputError(
                f"Expected {remote.algorithm} {remote.checksum} for {remote.url}, but got {found}. "
                "It was thrown away; try again later, or get the file elsewhere."
            )
        part.replace(target)
    return target


def _fetch(remote: Remote, file: IO[bytes], on_progress: Progress | None, timeout: float) -> None:
    """Append what is missing; start anew where the server cannot go on."""
    have = file.seek(0, os.SEEK_END)
    headers = {"User-Agent": "surefoot", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with urllib.request.urlopen(urllib.request.Request(remote.url, headers=headers), timeout=timeout) as answer:
            start = _start(answer, have)
            if start != have:
                file.truncate(start)
                file.seek(start)
            length = answer.headers.get("Content-Length")
            total = start + int(length) if length else None
            _copy(answer, file, total, lambda n: on_progress and on_progress(remote.file, n, total))
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            return  # nothing is missing; the checksum will tell
        if error.code in (408, 429, 500, 502, 503, 504):
            raise _Dropped(f"the server says {error.code}") from error
        raise InputError(f"Expected {remote.url}, but the server says {error.code} {error.reason}.") from error
    except urllib.error.URLError as error:
        raise RunError(
            f"Expected to reach {remote.url}, but {error.reason}. Check the connection, or get the file elsewhere."
        ) from error
    except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
        raise _Dropped(str(error) or type(error).__name__) from error


def _start(answer: Any, have: int) -> int:
    """Where the answer begins: at what was asked for, or at 0 where the server does not know Range."""
    if answer.status != 206:
        return 0
    match = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if not match or int(match[1]) != have:
        raise InputError(
            f"Expected the server to go on at byte {have}, but it said {answer.headers.get('Content-Range')!r}. "
            "Remove the .part file and try again."
        )
    return have


def _copy(answer: Any, file: IO[bytes], total: int | None, tell: Callable[[int], object]) -> None:
    while chunk := answer.read(_CHUNK):
        file.write(chunk)
        tell(file.tell())
    if total is not None and file.tell() < total:  # a broken connection looks like the end to read(n)
        raise _Dropped(f"{file.tell()} of {total} bytes came")


def checksum(path: Path, algorithm: str) -> str:
    """Compute a file's checksum in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
