"""What goes wrong outside of surefoot, in one line that says what to do."""

from __future__ import annotations

import errno
import os
import re

_TODO = {
    errno.ENOSPC: "Make room on the disk, then run the same command again: what was finished is kept.",
    errno.EDQUOT: "Make room in your quota, then run the same command again: what was finished is kept.",
    errno.EFBIG: "Raise the limit with `ulimit -f`, then run the same command again: what was finished is kept.",
    errno.EROFS: "Choose a place that can be written, with --out.",
    errno.EACCES: "Change who may use it, or choose another place.",
    errno.EPERM: "Change who may use it, or choose another place.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
    errno.ENOENT: "Check the name, and that its folder can be made.",
    errno.EMFILE: "Close other files, or raise the limit with `ulimit -n`.",
    errno.EIO: "Check the disk.",
}


def told(error: Exception) -> tuple[str, int] | None:
    """Say what happened and what to do.

    Args:
        error: What nobody has caught.

    Returns:
        One sentence or two, and the exit code; None where nothing is known about it.
    """
    number = error.errno if isinstance(error, OSError) else _number_in(error)
    if number is not None:
        named = getattr(error, "filename", None)
        what = f"to read or write {os.fspath(named)!r}" if named else "to read and write"
        reason = os.strerror(number)
        todo = _TODO.get(number, "Check the place, then run the same command again.")
        return f"Expected {what}, but the system refuses: {reason}. {todo}", 1
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "Expected to have enough memory, but there is none left. Use a smaller file or batch, or more memory.", 1
    if isinstance(error, RecursionError):
        return "Expected plain values, but a file is nested hundreds of levels deep. Save it anew.", 2
    return None


def _number_in(error: Exception) -> int | None:
    """Return the system's number of an error that safetensors tells as text."""
    found = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return int(found[1]) if found else None
