"""One network on several ranks: as replicas (DDP) or in shards (FSDP2), and what the number of ranks then changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from surefoot.ensembles import Ensemble
from surefoot.errors import InputError
from surefoot.losses._base import Batch, Loss
from surefoot.optim import ESAM, SharpnessAware
from surefoot.ranks import Ranks, local
from surefoot.training.tracker import Tracker, undisturbed
from surefoot.training.trainee import Trainee

SHARDS = ("none", "fsdp2")
_NORMS = (nn.modules.batchnorm._BatchNorm,)
_DROPS = (nn.modules.dropout._DropoutNd,)


def shard(model: nn.Module, ensemble: Ensemble) -> None:
    """Spread a network's parameters out over all ranks: the blocks of its lists one by one, then what is left.

    Args:
        model: Changed in place, before an optimizer is made for it.
        ensemble: Must be of one network, whose weights nobody keeps.

    Raises:
        InputError: If it is another one.
    """
    from torch.distributed.fsdp import fully_shard

    if type(ensemble) is not Ensemble:
        raise InputError(
            f"Expected one network with --shard fsdp2, but got {type(ensemble).__name__}, which keeps whole weights. "
            "Train it without --shard."
        )

    lists = [module for module in model.modules() if isinstance(module, nn.Sequential | nn.ModuleList)]
    for blocks in reversed(lists):  # what is inside comes first
        for block in blocks:
            if not isinstance(block, nn.ModuleList) and any(True for _ in block.parameters()):
                fully_shard(block)
    fully_shard(model)


def replicated(trainee: Trainee, ranks: Ranks) -> Trainee:
    """Let DDP keep a network alike on all ranks.

    Args:
        trainee: Its optimizer is told, so that ranks can climb each on their own.
        ranks: Who trains together.

    Returns:
        The same, with steps that share their gradients.
    """
    if ranks.is_alone or trainee.called is None:
        return trainee
    replica = DistributedDataParallel(trainee.called)
    trainee.optimizer.model = replica
    return replace(trainee, called=replica)


def is_finite(model: nn.Module) -> bool:
    """Return whether all weights that this rank holds are finite."""
    return all(bool(local(parameter.detach()).isfinite().all()) for parameter in model.parameters())


def mesh_of(model: nn.Module) -> Any:
    """Return the ranks over which a network is spread out; None where it is not."""
    return next((getattr(parameter, "device_mesh", None) for parameter in model.parameters()), None)


def whole_weights(model: nn.Module) -> dict[str, Tensor]:
    """Put a network that is spread out together, on the CPU of the first rank; all ranks call this together."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=options)  # type: ignore[return-value]  # of tensors, as models have


def depends_on_ranks(trainee: Trainee, batch: Batch, *, is_shared: bool = False) -> list[str]:
    """Say what makes a step another one where its batch is divided among another number of ranks.

    Args:
        trainee: What is trained; it is left as it is.
        batch: A few prepared examples, with which the loss is tried out.
        is_shared: Whether every process reads, augments and mixes its own examples only.

    Returns:
        Reasons; where there are none, steps differ in rounding only.
    """
    model, optimizer, found = trainee.model, trainee.optimizer, []
    if isinstance(optimizer, SharpnessAware) and optimizer.perturbation == "rank" and mesh_of(model) is None:
        apart = "every process climbs along its own gradient (with perturbation=synchronised all climb together)"
        found.append(apart if optimizer.m is None else "parts of m examples are cut from the share of a process")
    if isinstance(optimizer, ESAM):
        found.append("every process selects among its own examples")
    if any(isinstance(module, _NORMS) for module in model.modules()):
        found.append("BatchNorm normalises by the share of a process")
    if any(isinstance(module, _DROPS) and module.p > 0 for module in model.modules()):
        found.append("every process draws dropout masks of its own")
    if is_shared and (trainee.augment is not None or batch.drawn):
        found.append("every process draws for the examples that it reads")
    if _is_coupled(trainee.loss, model, batch):
        found.append("the loss of an example depends on what else the process evaluates")
    return found


@torch.no_grad()
def _is_coupled(loss: Loss, model: nn.Module, batch: Batch) -> bool:
    """Return whether examples have another loss together than in two halves."""
    still = [module for module in model.modules() if isinstance(module, (*_NORMS, *_DROPS))]
    half = len(batch) // 2
    with undisturbed(model):
        for module in still:
            module.eval()
        whole, *halves = (
            loss.evaluate(model, batch[part])[0] for part in (slice(None), slice(half), slice(half, None))
        )
    each = torch.cat([terms.per_example for terms in halves])
    return whole.penalty is not None or not torch.allclose(whole.per_example, each, rtol=1e-3, atol=1e-4)


def check_shard(text: str) -> None:
    """Refuse a way to spread parameters out that there is not, or that needs several processes.

    Args:
        text: What was asked for.

    Raises:
        InputError: If it cannot be done.
    """
    if text not in SHARDS:
        raise InputError(f"Expected --shard {' or '.join(SHARDS)}, but got {text!r}. Leave it out for replicas.")
    if text != "none" and not torch.distributed.is_initialized():
        raise InputError(
            f"Expected processes started by torchrun with --shard {text}, but this is one alone. Write "
            "torchrun --nproc-per-node 2 -m surefoot train …"
        )


def check_same(name: str, ranks: Ranks) -> None:
    """Refuse ranks that are about to train different things.

    Args:
        name: Of the run, which its spec, its data and the package's version determine.
        ranks: Who trains together.

    Raises:
        InputError: If they differ.
    """
    if len(names := set(ranks.everyone(name))) > 1:
        raise InputError(
            f"Expected the same command, data and version of surefoot in all processes, but they make {len(names)} "
            "different runs. Compare what their machines have."
        )


def check_trackers(trackers: Mapping[str, Tracker]) -> None:
    """Refuse trackers that need a whole network where it is spread out.

    Args:
        trackers: By name.

    Raises:
        InputError: If there is one.
    """
    for name, tracker in trackers.items():
        if getattr(tracker, "needs_whole", False):
            raise InputError(
                f"Expected trackers that look at logits with --shard fsdp2, but {name} needs all weights in one "
                "process. Leave it out, and measure the finished run with `surefoot measure`."
            )
