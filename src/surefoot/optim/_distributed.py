"""How passes are made by several processes with one model: who climbs with whom, and what the ranks tell each other.

Under DDP each rank has a batch of its own. Either every rank climbs along its own gradient and only the gradients
found there are averaged (``"rank"``, which is m-sharpness with m examples per rank), or the clean gradients are
averaged first and all ranks climb to the same place (``"synchronised"``).

Ranks that climb each on their own are *apart* from the clean pass until their gradients are averaged, in the second
backward pass by DDP or after it by :meth:`ReplicatedPasses.average`. Meanwhile no rank may leave the step alone,
whatever it has seen: the others would wait for it for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.errors import InputError
from surefoot.optim._passes import Passes, total_norm
from surefoot.optim._torch import JOIN, STOP_WAITING
from surefoot.optim.rules import Perturbation
from surefoot.ranks import is_sharded

if TYPE_CHECKING:
    from surefoot.optim._step import Step
    from surefoot.optim.rules import CleanGradient, Rule
    from surefoot.optim.sharpness_aware import SharpnessAware


def is_distributed() -> bool:
    """Return whether this process is one of several that work together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def passes_for(model: nn.Module | None, *, must_replicate: bool) -> Passes:
    """Choose how passes are made.

    Args:
        model: A ``DistributedDataParallel`` module, one that holds it, such as a compiled one, or any other.
        must_replicate: Whether ``perturbation="rank"`` was asked for.

    Returns:
        The passes of replicas, or those of one process.

    Raises:
        InputError: If there are several processes that should climb apart, and the model is not replicated.
    """
    modules = model.modules() if model is not None else ()
    ddp = next((module for module in modules if isinstance(module, DistributedDataParallel)), None)
    if ddp is None and must_replicate and is_distributed():
        raise InputError(
            f"Expected a DistributedDataParallel model for perturbation='rank', but got "
            f"{type(model).__name__}. Pass model=ddp, or leave perturbation out."
        )
    passes = Passes() if ddp is None else ReplicatedPasses(ddp)
    passes.model = model
    return passes


def choose_perturbation(
    wanted: Perturbation | None, rules: Mapping[str, Rule], m: int | None, params: Iterable[Tensor]
) -> Perturbation:
    """Return how the ranks climb.

    Args:
        wanted: What was asked for; None for a choice by the method.
        rules: The parts of the step by name. One that remembers gradients must remember the same on all ranks:
            otherwise a checkpoint would be valid on the rank that wrote it only.
        m: Size of the parts that climb on their own, if any.
        params: The parameters, plain or sharded.

    Returns:
        ``"rank"`` or ``"synchronised"``.

    Raises:
        InputError: If the method cannot climb as asked for.
    """
    if m is not None and m < 1:
        raise InputError(f"Expected m ≥ 1 examples per part, but got {m}. Try m=16, or leave it out.")
    if m is not None and rules["ascent"].memory:
        raise InputError(
            "Expected an ascent without memory where parts climb on their own, but got "
            f"{type(rules['ascent']).__name__}. Leave m out."
        )
    remembering = [type(rule).__name__ for rule in rules.values() if rule.remembers_gradients]
    if wanted not in (None, "rank", "synchronised"):
        raise InputError(f'Expected perturbation to be "rank" or "synchronised", but got {wanted!r}. Leave it out.')
    if wanted == "synchronised" and m is not None:
        raise InputError(
            f"Expected parts of m = {m} examples to climb each on their own, but got perturbation='synchronised'. "
            "Leave out one of the two."
        )
    if wanted == "rank" and remembering:
        raise InputError(
            f"Expected rules that remember no gradients where ranks climb on their own, but got {remembering[0]}. "
            "Leave perturbation out: the ranks then climb together."
        )
    if wanted == "rank" and any(is_sharded(parameter) for parameter in params):
        raise InputError(
            "Expected whole parameters on every rank where ranks climb on their own, but got sharded ones. "
            "Leave perturbation out: the ranks then climb together."
        )
    return wanted or ("synchronised" if remembering else "rank")


def nonfinite_gradient(loss: Tensor) -> Tensor:
    """Return a loss whose gradient is not finite either if the loss is not.

    Gradients are what ranks exchange, so all of them hear of it and decide alike; a rank that looked at its own
    loss would be alone with what it saw.

    Args:
        loss: A scalar.

    Returns:
        The same scalar; NaN instead of infinity.
    """
    return loss * torch.where(loss.detach().isfinite(), 1.0, math.nan).to(loss.dtype)


@contextmanager
def with_nan_gradients(params: Iterable[Tensor]) -> Iterator[None]:
    """Turn all gradients into NaN as they are computed, before they are averaged over ranks.

    A rank that has met a NaN in a pass of its own thereby tells the others, which are about to wait for it.

    Args:
        params: Their gradients become NaN.
    """
    hooks = [p.register_hook(lambda grad: torch.full_like(grad, math.nan)) for p in params if p.requires_grad]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class ReplicatedPasses(Passes):
    """The passes of a model that ``DistributedDataParallel`` keeps alike on all ranks.

    Args:
        ddp: This rank's copy.
    """

    may_climb_apart = True

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp
        self.n = dist.get_world_size(ddp.process_group)
        self.rank = dist.get_rank(ddp.process_group)

    def unshared(self) -> AbstractContextManager[None]:
        """Surround passes, forward and backward, whose gradients stay on this rank."""
        return self.ddp.no_sync()

    def keep(self, clean: CleanGradient) -> None:
        """Make the clean gradients outlast the perturbed pass, which may write where they lie."""
        if self.ddp.gradient_as_bucket_view:
            clean.grads[:] = [grad.clone() for grad in clean.grads]

    @contextmanager
    def second(self, optimizer: SharpnessAware, step: Step) -> Iterator[None]:
        """Surround the perturbed pass of ranks that are apart.

        A rank that found its clean gradient broken tells the others by it.
        """
        unshared = self.unshared() if self._averages_late(optimizer) else nullcontext()
        told = nullcontext() if step.error is None else with_nan_gradients(optimizer.parameters())
        with unshared, told:
            try:
                yield
            except BaseException:
                # DDP would take the next clean pass for the one that it waits for.
                getattr(self.ddp.reducer, STOP_WAITING, lambda: None)()
                raise

    def may_end(self, optimizer: SharpnessAware, step: Step, clean: CleanGradient) -> bool:
        """Return whether a step may end with its clean pass: a rank that is apart goes on, unless the others know."""
        if step.apart is None:
            return True
        if step.error is None or not optimizer.cadence.by_norm:
            return False
        for grad in clean.grads:  # a scaler looks at this rank's gradients alone
            grad.fill_(torch.inf)
        return True

    def agree(self, norm: float) -> float:
        """Return √(mean of norm² over ranks), the same on all ranks."""
        self._refuse_uneven()
        square = torch.tensor(norm**2, dtype=torch.float64, device=next(self.ddp.parameters()).device)
        dist.all_reduce(square, group=self.ddp.process_group)
        return math.sqrt(square.item() / self.n)

    @staticmethod
    def _averages_late(optimizer: SharpnessAware) -> bool:
        """Return whether ranks that climbed apart are averaged here, not by DDP while it differentiates."""
        needs = optimizer.stable or optimizer.descent.needs_clean or optimizer.m is not None
        return needs or any(rule.shares for rule in optimizer.rules.values())

    @torch.no_grad()
    def average(self, optimizer: SharpnessAware, step: Step, *, late: bool = False) -> None:
        """End being apart: average what the ranks found each on their own, unless DDP has done it.

        Args:
            optimizer: Whose gradients these are.
            step: What is known of the step.
            late: Whether there was no shared backward pass.
        """
        step.apart = None
        if not (late or self._averages_late(optimizer)):
            return
        moving = optimizer.parameters()
        grads = {parameter: parameter.grad for parameter in moving if parameter.grad is not None}
        stores = [grads, *(rule.to_share() for rule in optimizer.rules.values() if rule.shares)]
        self._average([parameter for parameter in moving if parameter.requires_grad], stores)
        for parameter, grad in grads.items():
            parameter.grad = grad
        step.check_finite(total_norm(list(grads.values())), "gradient norm")

    def _average(self, params: Sequence[Tensor], stores: Sequence[dict[Tensor, Tensor]]) -> None:
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

    def _refuse_uneven(self) -> None:
        """Refuse ranks that may have run out of batches: they would not answer."""
        if getattr(getattr(self.ddp, JOIN, None), "enable", False):
            raise InputError(
                "Expected a method whose ranks exchange nothing but gradients under Join, but got one that does. "
                "Give all ranks the same number of batches, or use SAM, CSAM or ASAM without m or stable."
            )
