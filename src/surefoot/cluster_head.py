"""The head of a Ray cluster, which may be lost: whoever waits for the cluster asks here now and then.

Without its head nothing comes back from a cluster. Ray waits for a minute (``RAY_gcs_rpc_server_reconnect_timeout_s``)
and then ends the whole process, in the middle of whatever it does. So the head is looked after from here, and its loss
is told before that.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from surefoot.errors import RunError

EVERY = 3.0  # seconds between two looks
_ANSWER = 3.0  # seconds for an answer
_log = logging.getLogger("surefoot")
_RAYS_OWN = "RAY_gcs_rpc_server_reconnect_timeout_s"


class Head:
    """Looks whether the head of a cluster still answers.

    Args:
        address: ``host:port``; empty where nobody knows it, and then it is never looked at.
        patience: Seconds without an answer after which it counts as lost; else half of what Ray itself waits, so that
            a head that is started again in time goes on.
    """

    def __init__(self, address: str, patience: float | None = None) -> None:
        self.address = address
        self.is_lost = False
        self._patience = float(os.environ.get(_RAYS_OWN, "60")) / 2 if patience is None else patience
        self._answered = self._looked = time.monotonic()

    def check(self) -> None:
        """Look, if the last look was a while ago.

        Raises:
            RunError: If the head has not answered for too long.
        """
        now = time.monotonic()
        if not self.address or now - self._looked < EVERY:
            return
        if _answers(self.address):
            self._answered = self._looked = time.monotonic()
            return
        self._looked = now = time.monotonic()
        if now - self._answered < self._patience:
            return
        self.is_lost = True
        raise RunError(
            f"Expected the head of the Ray cluster at {self.address} to answer, but it has not for "
            f"{now - self._answered:.0f} s: it is lost, and what ran with it. Start the cluster, wait a minute for "
            "workers of the old one to end, and run the same command again to go on from what is kept."
        )


def head_of(ray: Any) -> Head:
    """Return the head of the cluster that this process has joined."""
    client = ray.util.client.ray
    if client.is_connected():  # a client's calls fail by themselves when its server is lost
        return Head("")
    return Head(str(ray.get_runtime_context().gcs_address))


@contextmanager
def looked_after(head: Head) -> Iterator[None]:
    """Tell that the head is lost while the block waits in code of Ray, which ends this process a while later."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            try:
                head.check()
            except RunError as error:
                _log.error("%s", error)
                return

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER):
            return True
    except OSError:
        return False
