"""What a training step on several GPUs sends and keeps: formulas only, no torch.

Bytes are those of one rank. ``n`` is the number of ranks, a *message* is one collective call, and the bytes of a
message are those of the tensor that all ranks end up with or start from: the whole bucket of an all-reduce, the whole
gathered tensor of an all-gather, the whole input of a reduce-scatter.

Left out: activations, workspaces of kernels, and the allocator's gaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1 << 20
FIRST_BUCKET, BUCKET = MIB, 25 * MIB  # where DDP closes a bucket, unless told otherwise
FLOAT = 4  # bytes; weights and gradients are float32, also with --precision bf16
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Method:
    """What an optimizer does in one step.

    Attributes:
        passes: Forward and backward passes.
        shared: Of these, how many DDP averages while it differentiates.
        late: Whether the optimizer averages the result itself, in one message after the last pass.
        climbs: Whether there are perturbed weights.
        keeps_clean: Whether the clean gradient stays for the perturbed pass.
    """

    passes: int = 1
    shared: int = 1
    late: bool = False
    climbs: bool = False
    keeps_clean: bool = False


METHODS = {
    "sgd": Method(),
    "rank": Method(passes=2, climbs=True),  # SAM and CSAM alike, each rank along its own gradient
    "synchronised": Method(passes=2, shared=2, climbs=True),
    "late": Method(passes=2, shared=0, late=True, climbs=True),  # rank-wise SSAM, or stable=True
    "late, both": Method(passes=2, shared=0, late=True, climbs=True, keeps_clean=True),  # GSAM, GNP
}


@dataclass(frozen=True)
class Message:
    """One collective call: ``all_reduce``, ``all_gather`` or ``reduce_scatter`` of so many bytes."""

    kind: str
    n_bytes: int

    def sent(self, n: int) -> float:
        """Return the bytes that a rank sends in a ring of n.

        Example:
            >>> Message("all_reduce", 100).sent(4), Message("all_gather", 100).sent(4)
            (150.0, 75.0)
        """
        return (2 if self.kind == "all_reduce" else 1) * (n - 1) / n * self.n_bytes


def size(shape: Shape) -> int:
    """Return the bytes of a parameter."""
    return FLOAT * math.prod(shape)


def buckets(sizes: Sequence[int], first: int = FIRST_BUCKET, cap: int = BUCKET) -> list[int]:
    """Return the bytes of DDP's buckets in the order in which they are sent.

    A bucket is closed by the gradient with which it reaches its cap. DDP has this order from its second shared
    backward pass on; in the first one there is one bucket.

    Args:
        sizes: Bytes of the parameters, as the model lists them; their gradients come in the reverse order.
        first: Where the first bucket is closed.
        cap: Where later ones are.

    Returns:
        Bytes of each.

    Example:
        >>> buckets([30, 30, 30, 5], first=5, cap=50)
        [5, 60, 30]
    """
    found, filled = [], 0
    for n_bytes in reversed(sizes):
        filled += n_bytes
        if filled >= (cap if found else first):
            found.append(filled)
            filled = 0
    return [*found, filled] if filled else found


def ddp_messages(
    shapes: Sequence[Shape], method: Method, first: int = FIRST_BUCKET, cap: int = BUCKET
) -> list[Message]:
    """Return what DDP and the optimizer send in one step, apart from the model's buffers, if it has any.

    Args:
        shapes: Of the parameters.
        method: What the optimizer does.
        first: Where DDP closes its first bucket.
        cap: Where it closes others.

    Returns:
        Messages in their order.
    """
    found = [Message("all_reduce", n) for n in buckets([size(shape) for shape in shapes], first, cap)] * method.shared
    if method.late:  # with a flag for each parameter, whether this rank has a gradient
        found.append(Message("all_reduce", sum(map(size, shapes)) + FLOAT * len(shapes)))
    return found


def shard(shape: Shape, n: int, rank: int | None = None) -> int:
    """Return the bytes of a rank's shard under FSDP2, which cuts along the first dimension.

    Args:
        shape: Of the parameter.
        n: Ranks.
        rank: Whose shard; None for the padded size, which all have in messages.

    Returns:
        Bytes.

    Example:
        >>> shard((10, 2), 4), [shard((10, 2), 4, rank) for rank in range(4)]
        (24, [24, 24, 24, 8])
    """
    rows = -(-shape[0] // n)
    own = rows if rank is None else max(0, min(rows, shape[0] - rank * rows))
    return own * size(shape[1:])


def fsdp_messages(groups: Sequence[Sequence[Shape]], root: Sequence[Shape], method: Method, n: int) -> list[Message]:
    """Return what FSDP2 and the optimizer send in one step, in no order.

    Every pass gathers the weights forward, gathers again for backward what was resharded after forward, and reduces
    and scatters the gradients. The root is not resharded after forward. A climb sums up two norms over ranks.

    Args:
        groups: Shapes of the parameters of each block that is sharded on its own.
        root: Shapes of the parameters that are left; none is fine.
        method: What the optimizer does; ranks always climb together.
        n: Ranks.

    Returns:
        Messages.
    """
    blocks = [n * sum(shard(shape, n) for shape in shapes) for shapes in groups if shapes]
    rest = [n * sum(shard(shape, n) for shape in root)] if root else []
    one = [Message("all_gather", n_bytes) for n_bytes in [*blocks, *blocks, *rest]]
    one += [Message("reduce_scatter", n_bytes) for n_bytes in [*blocks, *rest]]
    return one * method.passes + [Message("all_reduce", 8)] * (2 if method.climbs else 0)


def sent(messages: Sequence[Message], n: int) -> float:
    """Return the bytes that a rank sends for some messages in rings of n."""
    return sum(message.sent(n) for message in messages)


def ddp_memory(shapes: Sequence[Shape], method: Method, states: int = 1, views: bool = False) -> dict[str, int]:
    """Return the bytes that a rank holds under DDP when most is there: at the end of the last backward pass.

    Args:
        shapes: Of the parameters.
        method: What the optimizer does.
        states: Tensors per parameter that the base optimizer keeps: 1 for SGD with momentum, 2 for AdamW.
        views: Whether gradients live in DDP's buckets (``gradient_as_bucket_view=True``).

    Returns:
        Bytes by what they are for.
    """
    whole = sum(map(size, shapes))
    return {
        "weights": whole,
        "gradients": whole,
        "buckets": 0 if views else whole,
        "state": states * whole,
        "perturbed": whole if method.climbs else 0,
        "clean": whole if method.keeps_clean else 0,
        "message": whole + FLOAT * len(shapes) if method.late else 0,
    }


def fsdp_memory(shapes: Sequence[Shape], method: Method, n: int, rank: int = 0, states: int = 1) -> dict[str, int]:
    """Return the bytes that a rank holds under FSDP2, without the blocks that are gathered at the moment.

    Args:
        shapes: Of all parameters.
        method: What the optimizer does.
        n: Ranks.
        rank: Whose bytes; where rows do not divide evenly, the last ranks hold fewer.
        states: Tensors per parameter that the base optimizer keeps.

    Returns:
        Bytes by what they are for.
    """
    padded, own = (sum(shard(shape, n, whose) for shape in shapes) for whose in (None, rank))
    return {
        "weights": padded,
        "gradients": padded,
        "state": states * own,
        "perturbed": own if method.climbs else 0,
        "copies": own if method.climbs else 0,  # values change places with the weights instead of pointers
        "clean": own if method.keeps_clean else 0,
    }
