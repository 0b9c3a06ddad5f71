"""Checks of the optimizers under FSDP2, run on every rank by torchrun."""

import copy
import io

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn import functional as F

from surefoot.errors import DivergedError, InputError
from surefoot.optim._passes import inner, total_norm
from surefoot.optim.sam import SAM
from tests.optim.distributed.launch import on_every_rank
from tests.optim.distributed.replicas import joint, make, mine, sgd
from tests.optim.problems import losses, wrappers

N_STEPS = 12
LONG = ("sam", "csam", "ssam", "asam", "vasso")


def network(seed=0):
    """Layers that do not divide evenly, one of them with fewer rows than ranks."""
    torch.manual_seed(seed)
    layers = [nn.Linear(12, 7), nn.Tanh(), nn.Linear(7, 1), nn.Linear(1, 3)]
    return nn.Sequential(*layers).double()


def sharded(model):
    """Two layers on their own, and the last one with the outermost module, which gathers it for longer."""
    model = copy.deepcopy(model)
    fully_shard(model[0])
    fully_shard(model[2])
    return fully_shard(model)


def whole(model):
    """All parameters, gathered."""
    return [p.full_tensor().detach() if isinstance(p, DTensor) else p.detach().clone() for p in model.parameters()]


def norms_are_over_all_shards():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    full = [torch.randn(5, 3), torch.randn(1), torch.randn(4, 2, dtype=torch.float64), 1e-30 * torch.ones(6)]
    for placement in (Shard(0), Replicate()):
        parts = [distribute_tensor(tensor, mesh, [placement]) for tensor in full]
        for function in (total_norm, lambda tensors: inner(tensors, tensors)):
            values = set(on_every_rank(function(parts)))
            assert len(values) == 1
            torch.testing.assert_close(values.pop(), function(full), atol=0, rtol=1e-6)
    tiny = distribute_tensor(1e-30 * torch.ones(6), mesh, [Shard(0)])
    torch.testing.assert_close(total_norm([tiny]), 1e-30 * 6**0.5, atol=0, rtol=1e-6)
    mixed = [distribute_tensor(torch.full((4,), 2.0), mesh, [Shard(0)]), torch.full((2,), 3.0)]
    assert abs(total_norm(mixed) - 34**0.5) < 1e-6


def norms_on_a_mesh_of_two_dimensions():
    """Replicas of shards, as in hybrid sharding: each shard counts once."""
    mesh = init_device_mesh("cpu", (2, 2))
    full = torch.arange(1.0, 11.0).view(5, 2)
    for placements in ([Replicate(), Shard(0)], [Shard(0), Replicate()], [Shard(0), Shard(1)], [Replicate()] * 2):
        part = distribute_tensor(full, mesh, placements)
        assert abs(total_norm([part]) - full.norm().item()) < 1e-5, placements


def sharded_is_whole():
    """Every method, against the unsharded run on the joint batch."""
    for name in [name for name in wrappers() if name != "esam"]:
        model = network()
        ours, one = sharded(model), copy.deepcopy(model)
        optimizer, reference = make(name, ours, None), make(name, one, None)
        for x, y in joint(N_STEPS if name in LONG else 3):
            optimizer.step(losses(ours, *mine((x, y))))
            reference.step(losses(one, x, y))
            if optimizer.facts.eps_norm is not None:
                close(optimizer.facts.eps_norm, reference.facts.eps_norm)
            close(optimizer.facts.grad_norm, reference.facts.grad_norm)
            assert optimizer.facts.climbed == reference.facts.climbed
        close(whole(ours), whole(one))
        assert not torch.equal(whole(one)[0], whole(model)[0])
        assert all(isinstance(p, DTensor) for p in ours.parameters())


def close(left, right):
    torch.testing.assert_close(left, right, atol=1e-9, rtol=1e-8)


def state_goes_round():
    """Through bytes into fresh objects, in the middle of a run, bit for bit."""
    for name in ("csam:base=adamw", "vasso", "bsam"):
        data = [mine(batch) for batch in joint(8)]
        ours = sharded(network())
        optimizer = make(name, ours, None)
        for batch in data[:4]:
            optimizer.step(losses(ours, *batch))
        file = io.BytesIO()
        torch.save((ours.state_dict(), optimizer.state_dict()), file)
        for batch in data[4:]:
            optimizer.step(losses(ours, *batch))
        fresh = sharded(network(seed=9))
        resumed = make(name, fresh, None)
        file.seek(0)
        weights, state = torch.load(file, weights_only=False)
        fresh.load_state_dict(weights)
        resumed.load_state_dict(state)
        for batch in data[4:]:
            resumed.step(losses(fresh, *batch))
        for a, b in zip(whole(ours), whole(fresh), strict=True):
            assert torch.equal(a, b), name


def explicit_loops():
    for name in ("csam", "gsam"):
        ours, other = sharded(network()), sharded(network())
        optimizer, reference = make(name, ours, None), make(name, other, None)
        for batch in joint(4):
            x, y = mine(batch)
            optimizer.zero_grad()
            with optimizer.clean():
                optimizer.loss(ours(x), y).backward()
            with torch.no_grad():
                ours(x)  # the outermost module keeps its gathered weights after this, which are about to change
            with optimizer.perturbed():
                optimizer.loss(ours(x), y).backward()
            optimizer.step()
            reference.step(losses(other, x, y))
        for a, b in zip(whole(ours), whole(other), strict=True):
            assert torch.equal(a, b)


def closures_that_raise():
    """In either pass, after the forward: weights are back on all ranks, also the gathered ones FSDP may keep."""
    for failing in (1, 2):
        ours, other = sharded(network()), sharded(network())
        optimizer, reference = make("csam", ours, None), make("csam", other, None)
        x, y = mine(joint(1)[0])
        before, calls = whole(ours), []

        def closure(x=x, y=y, ours=ours, calls=calls, failing=failing):
            calls.append(1)
            out = F.cross_entropy(ours(x), y, reduction="none")
            if len(calls) == failing:
                raise KeyError("lost")
            return out

        with pytest.raises(KeyError):
            optimizer.step(closure)
        assert all(torch.equal(a, b) for a, b in zip(whole(ours), before, strict=True))
        optimizer.step(closure)
        reference.step(losses(other, x, y))
        for a, b in zip(whole(ours), whole(other), strict=True):
            assert torch.equal(a, b), failing


def nan_on_one_rank():
    for name, broken, harm in (("csam", 1, torch.inf), ("vasso", 2, torch.nan), ("aesam", 1, torch.nan)):
        ours = sharded(network())
        optimizer = make(name, ours, None)
        x, y = mine(joint(1)[0])
        optimizer.step(losses(ours, x, y))
        before, calls = whole(ours), []

        def closure(x=x, y=y, ours=ours, calls=calls, broken=broken, harm=harm):
            calls.append(1)
            out = F.cross_entropy(ours(x), y, reduction="none")
            return out + harm if dist.get_rank() == 1 and len(calls) == broken else out

        try:
            optimizer.step(closure)
            refused = False
        except DivergedError:
            refused = True
        assert all(on_every_rank(refused)), (name, broken)
        assert all(torch.equal(a, b) for a, b in zip(whole(ours), before, strict=True))


def ranks_cannot_climb_on_their_own():
    ours = sharded(network())
    with pytest.raises(InputError, match="Expected whole parameters on every rank"):
        SAM(sgd(ours.parameters()), ours, perturbation="rank")


CHECKS = [
    norms_are_over_all_shards,
    norms_on_a_mesh_of_two_dimensions,
    sharded_is_whole,
    state_goes_round,
    explicit_loops,
    closures_that_raise,
    nan_on_one_rank,
    ranks_cannot_climb_on_their_own,
]
