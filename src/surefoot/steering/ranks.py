"""Held-out rows of several ranks, seen by all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from surefoot.errors import InputError

Pair = tuple[Tensor, Tensor]


def together(rows: Callable[[], Pair]) -> Pair:
    """Return the rows of all ranks, in the order of the ranks: the same tensors, bit for bit, on each.

    Ranks that were given the very same labels and nearly the same logits have looked at the same rows: those of the
    first one are taken, for to count them several times would make their noise look smaller than it is. What one rank
    refuses, all of them do, so that none waits for the others.

    Args:
        rows: Gives logits ``(n, classes)`` and labels of this rank; ranks may have different n.

    Returns:
        Logits and labels, on the CPU; as they are where there is one process.

    Raises:
        InputError: If a rank refuses its rows, or they have different numbers of classes.
    """
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return rows()
    refused: InputError | None = None
    mine: Pair | str
    try:
        logits, labels = rows()
        mine = logits.detach().cpu(), labels.cpu()
    except InputError as error:
        refused, mine = error, str(error)
    found: list[Pair | str] = [mine] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    pairs = [each for each in found if not isinstance(each, str)]
    if refused is not None:
        raise refused
    if len(pairs) < len(found):
        rank, reason = next((rank, each) for rank, each in enumerate(found) if isinstance(each, str))
        raise InputError(f"Expected rows from every rank, but rank {rank} refuses its own: {reason}")
    return _joined(pairs)


def _joined(pairs: Sequence[Pair]) -> Pair:
    if len({logits.shape[1] for logits, _ in pairs}) > 1:
        shapes = ", ".join(str(tuple(logits.shape)) for logits, _ in pairs)
        raise InputError(f"Expected as many classes on every rank, but got logits {shapes}. Use one model on all.")
    if all(_same(pairs[0], other) for other in pairs[1:]):
        return pairs[0]
    return torch.cat([part for part, _ in pairs]), torch.cat([part for _, part in pairs])


def _same(one: Pair, other: Pair) -> bool:
    same_rows = one[0].shape == other[0].shape and bool((one[1] == other[1]).all())
    return same_rows and len(one[1]) > 0 and torch.allclose(one[0], other[0], rtol=1e-3, atol=1e-3, equal_nan=True)
