"""How long tests wait for a process: only to end what hangs, never to say what is slow.

Everything here takes seconds on an idle machine. On a busy one it takes many minutes, and must pass all the same.
"""

import time
from collections.abc import Callable

PATIENCE = 3600.0  # seconds


def until(is_so: Callable[[], object]) -> None:
    """Wait for something that another thread or process brings about."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "It never came about."
        time.sleep(0.01)
