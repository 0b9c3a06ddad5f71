"""One writer per run folder."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO, Any

from surefoot.errors import BusyError

PATIENCE = (0.01, 0.05, 0.2, None)  # seconds: a page that asks whether the lock is held has it for a moment


def hold(file: IO[Any], folder: Path) -> None:
    """Take the lock of a folder until the file is closed.

    Args:
        file: The open lock file.
        folder: Whose lock it is, for the message.

    Raises:
        BusyError: If another process holds it.
    """
    for pause in PATIENCE:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if pause is None:
                raise BusyError(
                    f"Expected to be the only one writing {folder}, but another process is at it. "
                    "Wait for it, or choose another folder with --out."
                ) from error
            time.sleep(pause)
