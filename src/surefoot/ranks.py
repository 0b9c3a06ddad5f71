"""The processes that train one network together, as ``torchrun`` starts them; a process alone is the plain case.

Rank 0 reads and writes the run folder and says what the others have to know. Everything that decides about a run
(when to save, what a controller turns, whether a step diverged) is decided by what all ranks have seen, so that no
rank leaves the others waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore  # type: ignore[attr-defined]  # which it does have
from torch.distributed.rendezvous import rendezvous

from surefoot.batches import nth_batch
from surefoot.clusters import is_launched
from surefoot.errors import InputError, SurefootError

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """One process among those that train together.

    Attributes:
        rank: Its number.
        n: How many there are.

    Example:
        >>> Ranks(1, 3).share(10), ALONE.share(10)
        (slice(3, 6, None), slice(0, 10, None))
    """

    rank: int = 0
    n: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody else."""
        return self.n == 1

    def share(self, n_rows: int) -> slice:
        """Return which rows of so many are this rank's: shares differ by at most one row."""
        return nth_batch(self.rank, n_rows, self.n)

    def weight(self, n_rows: int) -> float:
        """Return by what this rank's mean over its share is multiplied, so that the ranks' mean is that over all rows.

        Example:
            >>> [Ranks(rank, 2).weight(5) for rank in range(2)]
            [0.8, 1.2]
        """
        mine = self.share(n_rows)
        return float((mine.stop - mine.start) * self.n / n_rows)

    def told(self, value: T) -> T:
        """Return what the first rank has for a value."""
        if self.is_alone:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def everyone(self, value: T) -> list[T]:
        """Return what each rank has for a value."""
        if self.is_alone:
            return [value]
        values: list[Any] = [None] * self.n
        dist.all_gather_object(values, value)
        return values

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over ranks of a few numbers, the same on all of them."""
        if self.is_alone:
            return values
        dist.all_reduce(values)
        return values.div_(self.n)

    def joined(self, rows: Tensor, n_rows: int) -> Tensor:
        """Put the ranks' shares of so many rows together, on all ranks."""
        if self.is_alone:
            return rows
        shares = [Ranks(rank, self.n).share(n_rows) for rank in range(self.n)]
        return torch.cat(self.gathered(rows, [share.stop - share.start for share in shares]))

    def gathered(self, rows: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Return the rows of each rank, of which the first so many are wanted; ranks without a size are left out."""
        padded = rows.new_zeros((max(sizes), *rows.shape[1:]))
        padded[: len(rows)] = rows
        found = [torch.empty_like(padded) for _ in range(self.n)]
        dist.all_gather(found, padded)
        return [each[:size] for each, size in zip(found, sizes, strict=False)]

    def align_buffers(self, model: nn.Module) -> None:
        """Give all ranks the first one's buffers, such as BatchNorm's statistics, as DDP does before its next pass."""
        if not self.is_alone:
            for buffer in model.buffers():
                dist.broadcast(buffer, src=0)

    def wait(self) -> None:
        """Wait until all ranks have come here."""
        if not self.is_alone:
            dist.barrier()

    def alike(self, make: Callable[[], T]) -> T:
        """Let every rank make something; where one fails, all fail, and that one says why.

        Args:
            make: Is called on every rank; what it exchanges with the others, all of them exchange.

        Returns:
            What it gave on this rank.

        Raises:
            SurefootError: The first rank's that failed.
        """
        made: T | None = None
        own: SurefootError | None = None
        try:
            made = make()
        except SurefootError as error:
            if self.is_alone:
                raise
            own = error
        errors = self.everyone(own)
        first = next((rank for rank, error in enumerate(errors) if error is not None), None)
        if first is None:
            return made  # type: ignore[return-value]  # nobody failed
        found = own if first == self.rank else errors[first]
        assert found is not None
        found.is_told_elsewhere = first != self.rank
        raise found

    def by_first(self, make: Callable[[], T]) -> T:
        """Let the first rank make something, and give it to all; where it fails, all do."""
        return self.told(self.alike(lambda: make() if self.is_first else None))  # type: ignore[return-value]  # all get its


ALONE = Ranks()


@contextmanager
def together(device: str) -> Iterator[Ranks]:
    """Join the processes that ``torchrun`` has started beside this one, for as long as the block lasts.

    A process group that is there already is used and left as it is.

    Args:
        device: Where to train; with ``cuda``, each process of a machine takes a GPU of its own.

    Yields:
        This process among them.

    Raises:
        InputError: If there are not enough GPUs for the processes of this machine.
    """
    if not dist.is_available() or not (dist.is_initialized() or is_launched()):
        yield ALONE
        return
    if device.startswith("cuda"):
        local, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
        if device != "cuda" or local >= there:
            raise InputError(
                f"Expected --device cuda and a GPU for each process, but got {device} and {there} GPUs for process "
                f"{local + 1} of this machine. Start one process per GPU."
            )
        torch.cuda.set_device(local)
    if dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size())
        return
    store, rank, n = next(rendezvous("env://"))
    # A group that torchrun starts again finds the addresses of the one before in the store, unless it looks elsewhere.
    store = PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", store=store, rank=rank, world_size=n)
    yield Ranks(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()  # not where something failed: the others may wait for what will not come


def is_sharded(tensor: Tensor) -> bool:
    """Return whether a tensor is spread out over ranks."""
    if type(tensor) in (Tensor, nn.Parameter):
        return False
    from torch.distributed.tensor import DTensor  # slow to import, and few need it

    return isinstance(tensor, DTensor)


def local(tensor: Tensor) -> Tensor:
    """Return what this rank holds of a tensor: of a whole one, all."""
    sharded: Any = tensor
    return sharded.to_local() if is_sharded(tensor) else tensor


def reshard(model: nn.Module | None) -> None:
    """Let FSDP forget gathered copies of a model's parameters, which it may have kept and which know of no change."""
    if model is None or not any(map(is_sharded, model.parameters())):
        return
    from torch.distributed.fsdp import FSDPModule  # slow to import, and few need it

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
