"""A worker ends when whoever started it ends, however that was: a signal that nobody can catch included.

Otherwise a comparison that was stopped goes on in the dark, holds its run folders and keeps the next one out of them.
A run that ends like this loses nothing: it goes on from its last checkpoint.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.connection import wait

PR_SET_PDEATHSIG = 1  # of Linux's prctl: which signal to get when the parent ends


def end_with_parent() -> None:
    """See to it that this process, started by multiprocessing, does not outlive the one that started it.

    On Linux the kernel does it at once. Everywhere a thread waits for the end of a pipe that the parent holds open:
    it also finds a parent that ended before anybody could ask the kernel.
    """
    parent = multiprocessing.parent_process()
    if parent is None:  # nobody started it
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent.pid:  # it ended before the kernel was asked
            os._exit(1)
    threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True, name="waits for the parent").start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
