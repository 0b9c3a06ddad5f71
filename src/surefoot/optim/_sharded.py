"""Parameters that are spread out over ranks, as FSDP2 and tensor parallelism do it.

Each rank holds a shard. What is done entry by entry needs nothing more; a sum over all entries must be added up
over the ranks that hold other shards, once each, also where several ranks hold the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from surefoot.ranks import is_sharded, local

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Shards = tuple[Any, tuple[int, ...]]  # a device mesh, and its dimensions along which ranks hold different shards


def total(over: Callable[..., float], *lists: Sequence[Tensor]) -> float:
    """Return a sum over all entries of lists of tensors, plain or sharded.

    Args:
        over: Sums up lists of plain tensors.
        *lists: Tensors, sharded alike from list to list.

    Returns:
        The sum over the whole tensors, the same on all ranks that share them.

    Example:
        >>> total(lambda tensors: sum(t.sum().item() for t in tensors), [torch.ones(2), torch.ones(3)])
        5.0
    """
    if not any(is_sharded(tensor) for tensor in lists[0]):
        return over(*lists)
    places = [_shards(tensor) if is_sharded(tensor) else None for tensor in lists[0]]
    summed = 0.0
    for place in dict.fromkeys(places):
        here = [[t for t, its in zip(tensors, places, strict=True) if its == place] for tensors in lists]
        if place is None:
            summed += over(*here)
        else:
            summed += _over_ranks(over(*([local(tensor) for tensor in tensors] for tensors in here)), place)
    return summed


def _shards(tensor: Tensor) -> Shards:
    sharded: DTensor = tensor  # type: ignore[assignment]  # the caller has looked
    return sharded.device_mesh, tuple(
        dim for dim, placement in enumerate(sharded.placements) if not placement.is_replicate()
    )


def _over_ranks(value: float, place: Shards) -> float:
    mesh, dims = place
    summed = torch.tensor(value, dtype=torch.float64, device=mesh.device_type)
    for dim in dims:
        dist.all_reduce(summed, group=mesh.get_group(dim))
    return summed.item()


def spread_like(whole: Tensor, tensor: Tensor) -> Tensor:
    """Spread a tensor that all ranks hold out as another one is."""
    if not is_sharded(tensor):
        return whole
    from torch.distributed.tensor import distribute_tensor

    sharded: DTensor = tensor  # type: ignore[assignment]  # see above
    return distribute_tensor(whole, sharded.device_mesh, sharded.placements, src_data_rank=None)
