"""Several processes, one model: who climbs with whom, and what the ranks tell each other.

Under DDP each rank has a batch of its own. Either every rank climbs along its own gradient and only the gradients
found there are averaged (``"rank"``, which is m-sharpness with m examples per rank), or the clean gradients are
averaged first and all ranks climb to the same place (``"synchronised"``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.errors import InputError
from surefoot.optim._rules import Rule
from surefoot.optim._sharded import is_sharded

Perturbation = Literal["rank", "synchronised"]


def is_distributed() -> bool:
    """Return whether this process is one of several that work together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def settle(perturbation: Perturbation | None, rules: Iterable[Rule], m: int | None, params: Iterable[Tensor]) -> str:
    """Return how the ranks climb.

    Args:
        perturbation: What was asked for; None for a choice by the method.
        rules: The parts of the step. One that remembers gradients must remember the same on all ranks: otherwise
            a checkpoint would be valid on the rank that wrote it only.
        m: Size of the parts that climb on their own, if any.
        params: The parameters, plain or sharded.

    Returns:
        ``"rank"`` or ``"synchronised"``.

    Raises:
        InputError: If the method cannot climb as asked for.
    """
    remembering = [type(rule).__name__ for rule in rules if rule.remembers_gradients]
    if perturbation not in (None, "rank", "synchronised"):
        raise InputError(
            f'Expected perturbation to be "rank" or "synchronised", but got {perturbation!r}. Leave it out.'
        )
    if perturbation == "synchronised" and m is not None:
        raise InputError(
            f"Expected parts of m = {m} examples to climb each on their own, but got perturbation='synchronised'. "
            "Leave out one of the two."
        )
    if perturbation == "rank" and remembering:
        raise InputError(
            f"Expected rules that remember no gradients where ranks climb on their own, but got {remembering[0]}. "
            "Leave perturbation out: the ranks then climb together."
        )
    if perturbation == "rank" and any(is_sharded(parameter) for parameter in params):
        raise InputError(
            "Expected whole parameters on every rank where ranks climb on their own, but got sharded ones. "
            "Leave perturbation out: the ranks then climb together."
        )
    return perturbation or ("synchronised" if remembering else "rank")


def telling(loss: Tensor) -> Tensor:
    """Return a loss whose gradient is not finite either if the loss is not.

    Gradients are what ranks exchange, so all of them hear of it and decide alike; a rank that looked at its own
    loss would be alone with what it saw.

    Args:
        loss: A scalar.

    Returns:
        The same scalar; NaN instead of infinity.
    """
    if not is_distributed():
        return loss
    return loss * torch.where(loss.detach().isfinite(), 1.0, math.nan).to(loss.dtype)


@contextmanager
def spoiling(params: Iterable[Tensor]) -> Iterator[None]:
    """Turn all gradients into NaN as they are computed, before they are averaged over ranks.

    A rank that has met a NaN in a pass of its own thereby tells the others, which are about to wait for it.

    Args:
        params: Their gradients are spoiled.
    """
    hooks = [p.register_hook(lambda grad: torch.full_like(grad, math.nan)) for p in params if p.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Replicas:
    """The copies of a model that ``DistributedDataParallel`` keeps alike.

    Args:
        ddp: This rank's copy.
    """

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp
        self.n = dist.get_world_size(ddp.process_group)
        self.rank = dist.get_rank(ddp.process_group)

    def apart(self) -> AbstractContextManager[None]:
        """Surround passes, forward and backward, whose gradients stay on this rank."""
        return self.ddp.no_sync()

    def mean_square_root(self, norm: float) -> float:
        """Return √(mean of norm² over ranks), the same on all ranks."""
        self._refuse_uneven()
        square = torch.tensor(norm**2, dtype=torch.float64, device=self._device)
        dist.all_reduce(square, group=self.ddp.process_group)
        return math.sqrt(square.item() / self.n)

    @torch.no_grad()
    def average(self, params: Sequence[Tensor], stores: Sequence[dict[Tensor, Tensor]]) -> None:
        """Average tensors over ranks in one message.

        A parameter that some ranks have a value for gets the sum of these divided by the number of all ranks, as
        DDP does it; one that no rank has a value for stays without.

        Args:
            params: The same ones in the same order on all ranks.
            stores: Values by parameter, changed in place.
        """
        self._refuse_uneven()
        for kind in dict.fromkeys((parameter.dtype, parameter.device) for parameter in params):
            of_kind = [parameter for parameter in params if (parameter.dtype, parameter.device) == kind]
            slots = [(store, parameter) for store in stores for parameter in of_kind]
            values = [store[p] if p in store else torch.zeros_like(p) for store, p in slots]
            has = torch.tensor([float(p in store) for store, p in slots], dtype=kind[0], device=kind[1])
            flat = torch.cat([*(value.reshape(-1) for value in values), has])
            dist.all_reduce(flat, group=self.ddp.process_group)
            flat.div_(self.n)
            pieces = flat.split([*(value.numel() for value in values), len(slots)])
            for (store, p), value, piece, known in zip(slots, values, pieces, pieces[-1].tolist(), strict=False):
                if known:
                    store[p] = value.copy_(piece.view_as(value))
        # Buffers, such as BatchNorm's, follow the first rank's at the next forward pass, as after DDP's own backward.
        self.ddp.require_forward_param_sync = True

    def keep(self, grads: list[Tensor]) -> None:
        """Make gradients outlast the next backward pass, which may write where they lie."""
        if self.ddp.gradient_as_bucket_view:
            grads[:] = [grad.clone() for grad in grads]

    def give_up(self) -> None:
        """Let DDP no longer wait for a backward pass that will not come: it would take the next clean one for it."""
        self.ddp.reducer._reset_state()

    @property
    def _device(self) -> torch.device:
        return next(self.ddp.parameters()).device

    def _refuse_uneven(self) -> None:
        """Refuse ranks that may have run out of batches: they would not answer."""
        if self.ddp._join_config.enable:
            raise InputError(
                "Expected a method whose ranks exchange nothing but gradients under Join, but got one that does. "
                "Give all ranks the same number of batches, or use SAM, CSAM or ASAM without m or stable."
            )


def replicas_of(model: nn.Module | None) -> Replicas | None:
    """Find the replicas that a model is one of.

    Args:
        model: A ``DistributedDataParallel`` module, or one that holds it, such as a compiled one.

    Returns:
        None if it is not replicated.
    """
    modules = model.modules() if model is not None else ()
    ddp = next((module for module in modules if isinstance(module, DistributedDataParallel)), None)
    return None if ddp is None else Replicas(ddp)
