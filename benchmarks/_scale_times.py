"""For how long a training step on several GPUs waits for its network, and how long an audit takes: formulas only.

A message takes α per hop and bytes / β, one message at a time; what a collective takes away from the computation
beside it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from _scale_model import BUCKET, FIRST_BUCKET, FLOAT, Message, Method, buckets


@dataclass(frozen=True)
class Link:
    """A network between ranks.

    Attributes:
        alpha: Seconds until the first byte of a hop arrives.
        beta: Bytes per second and rank.
        tree: Whether latency grows with the depth of a tree, as NCCL's, and not with the length of a ring.
    """

    alpha: float
    beta: float
    tree: bool = False

    def seconds(self, message: Message, n: int) -> float:
        """Return how long a message takes.

        Args:
            message: The call.
            n: Ranks.

        Returns:
            Seconds.

        Example:
            >>> Link(1.0, 10.0).seconds(Message("all_reduce", 100), 5), Link(1.0, 10.0, tree=True).seconds(
            ...     Message("all_reduce", 100), 4
            ... )
            (24.0, 19.0)
        """
        both = 2 if message.kind == "all_reduce" else 1
        hops = math.log2(n) if self.tree else n - 1
        return both * hops * self.alpha + message.sent(n) / self.beta


def exposed(ready: Sequence[float], durations: Sequence[float], end: float) -> float:
    """Return for how long a backward pass is over before its messages are.

    Messages go one after another, each as soon as its gradients are there and the one before has arrived.

    Args:
        ready: When each bucket is full.
        durations: How long each takes.
        end: When the backward pass ends.

    Returns:
        Seconds, at least what the last bucket takes if that fills up at the end.

    Example:
        >>> exposed([1.0, 2.0], [0.5, 0.5], end=2.0), exposed([1.0, 2.0], [3.0, 0.5], end=2.0)
        (0.5, 2.5)
    """
    free = 0.0
    for start, duration in zip(ready, durations, strict=True):
        free = max(start, free) + duration
    return max(0.0, free - end)


@dataclass(frozen=True)
class Load:
    """A network in training on one GPU.

    Attributes:
        sizes: Bytes of the parameters, as the model lists them.
        forward: Seconds of a forward pass.
        backward: Seconds of a backward pass.
        work: How the time of a backward pass is divided among the parameters; None for evenly.
        first: Where DDP closes its first bucket.
        cap: Where it closes others.
    """

    sizes: tuple[int, ...]
    forward: float
    backward: float
    work: tuple[float, ...] | None = None
    first: int = FIRST_BUCKET
    cap: int = BUCKET

    @property
    def buckets(self) -> list[Message]:
        """What DDP sends in a shared backward pass."""
        return [Message("all_reduce", n_bytes) for n_bytes in buckets(self.sizes, self.first, self.cap)]

    def ready(self) -> list[float]:
        """Return when each bucket is full, counted from the start of the backward pass."""
        work = self.work or (1.0,) * len(self.sizes)
        sizes = accumulate(reversed(self.sizes))
        at = dict(zip(sizes, accumulate(reversed(work)), strict=True))
        filled = accumulate(message.n_bytes for message in self.buckets)
        return [self.backward * at[n_bytes] / sum(work) for n_bytes in filled]

    def communication(self, link: Link, n: int) -> float:
        """Return the seconds of one averaged gradient, hidden or not."""
        return sum(link.seconds(message, n) for message in self.buckets)

    def waits(self, method: Method, link: Link, n: int) -> float:
        """Return for how long a step of DDP waits for the network.

        Args:
            method: What the optimizer does.
            link: The network.
            n: Ranks.

        Returns:
            Seconds that the network adds to the step.
        """
        if n == 1:
            return 0.0
        durations = [link.seconds(message, n) for message in self.buckets]
        after = method.shared * exposed(self.ready(), durations, self.backward)
        whole = Message("all_reduce", sum(self.sizes) + FLOAT * len(self.sizes))
        return after + (link.seconds(whole, n) if method.late else 0.0)

    def computes(self, method: Method) -> float:
        """Return the seconds of a step without a network."""
        return method.passes * (self.forward + self.backward)


def hidden_until(load_of: dict[int, Load], link: Link, n: int) -> int | None:
    """Return the smallest batch per GPU whose backward pass is as long as its communication.

    Args:
        load_of: The load, by examples per GPU.
        link: The network.
        n: Ranks.

    Returns:
        The batch; None if none of these is large enough.
    """
    fits = (batch for batch, load in sorted(load_of.items()) if load.communication(link, n) <= load.backward)
    return next(fits, None)


def audit_seconds(rows: float, per_row: float, fixed: float, workers: int) -> float:
    """Return how long an audit takes whose rows are read by several workers and whose rest is done by one.

    Args:
        rows: How many.
        per_row: Seconds of one worker for a row.
        fixed: Seconds for what does not grow with the rows.
        workers: How many.

    Returns:
        Seconds.

    Example:
        >>> audit_seconds(1_000_000_000, 1e-6, 5.0, 10)
        105.0
    """
    return fixed + rows * per_row / workers
