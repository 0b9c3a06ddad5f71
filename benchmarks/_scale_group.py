"""A gloo group that notes every message, and can hold each back for as long as a slower network would take."""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from _scale_model import Message
from torch._C._distributed_c10d import _create_work_from_future

KINDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "broadcast": "broadcast",
    "barrier": "barrier",
}
NEWER = {"all_gather_single": "_allgather_base", "reduce_scatter_single": "_reduce_scatter_base"}  # to gloo's names


class WatchedGroup(dist.ProcessGroup):
    """All ranks, by gloo.

    Attributes:
        messages: What was asked of it.
        hold: Seconds that a message takes; None sends as quickly as gloo does. Messages go one after another, as on
            one link, while whoever sent them goes on, until it waits for them.
        mute: Whether nothing is sent, and every message is over at once; what it should have brought is missing.
        seen: Is called with every message.
    """

    def __init__(self, store: Any, rank: int, n: int, timeout: Any) -> None:
        super().__init__(rank, n)
        self.gloo = dist.ProcessGroupGloo(store, rank, n, timeout)
        self.messages: list[Message] = []
        self.hold: Callable[[Message], float] | None = None
        self.mute = False
        self.seen: Callable[[Message], None] | None = None
        self._free = 0.0  # when the link is
        self._jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        threading.Thread(target=self._carry, daemon=True).start()

    @property
    def group_name(self) -> str:
        """The name under which torch knows it."""
        return str(dist.distributed_c10d._world.pg_names[self])

    def getBackendName(self) -> str:  # torch's name
        """Say what it is."""
        return "watched"

    def call(self, name: str, *args: Any) -> Any:
        """Send a message, now or held back."""
        message = Message(KINDS[name], 0 if name == "barrier" else _whole(name, args).nbytes)
        self.messages.append(message)
        if self.seen is not None:
            self.seen(message)
        send = getattr(self.gloo, NEWER.get(name, name))
        if name in ("barrier", "broadcast") or not (self.mute or self.hold):
            return send(*args)
        future: torch.futures.Future[Any] = torch.futures.Future()
        if self.mute or self.hold is None:
            future.set_result(args[0])
            return _create_work_from_future(future)
        self._free = max(time.perf_counter(), self._free) + self.hold(message)
        self._jobs.put((send, args, future, self._free))
        return _create_work_from_future(future)

    def _carry(self) -> None:
        while True:
            send, args, future, due = self._jobs.get()
            send(*args).wait()
            time.sleep(max(0.0, due - time.perf_counter()))
            future.set_result(args[0])


def _whole(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """Return the tensor that a message is about: whole, not this rank's part."""
    found = args[1] if KINDS[name] == "reduce_scatter" else args[0]
    while not isinstance(found, torch.Tensor):
        found = found[0] if KINDS[name] != "all_gather" else torch.cat([each.reshape(-1) for each in found[0]])
    return found


def _method(name: str) -> Callable[..., Any]:
    def send(self: WatchedGroup, *args: Any, opts: Any = None) -> Any:
        return self.call(name, *args, *([] if opts is None else [opts]))

    return send


for _name in KINDS:
    setattr(WatchedGroup, _name, _method(_name))


def start() -> WatchedGroup:
    """Join the processes that torchrun has started, and return the group."""
    dist.Backend.register_backend("watched", WatchedGroup, devices=["cpu"])
    dist.init_process_group("watched")
    found = dist.group.WORLD
    assert isinstance(found, WatchedGroup)
    return found


def wired() -> int:
    """Return how many bytes this process has sent over TCP, as the kernel counts them, without TCP's own headers."""
    total = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
        with suppress(OSError), socket.socket(fileno=os.dup(int(number))) as each:
            if each.type == socket.SOCK_STREAM and each.family in (socket.AF_INET, socket.AF_INET6):
                info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                sent, again = struct.unpack_from("QQ", info, 200)  # tcpi_bytes_sent and tcpi_bytes_retrans
                total += sent - again
    return total
