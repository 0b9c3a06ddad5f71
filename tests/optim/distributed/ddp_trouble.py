"""What may go wrong under DDP, on one rank or on all: checks run on each of them by torchrun."""

import copy
import warnings
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.nn.functional import all_reduce
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from surefoot.errors import DivergedError, InputError
from surefoot.optim.aesam import AESAM
from surefoot.optim.csam import CSAM
from surefoot.optim.gsam import GSAM
from surefoot.optim.looksam import LookSAM
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from surefoot.schema import LossTerms
from tests.optim.distributed.launch import on_every_rank
from tests.optim.distributed.replicas import (
    MODES,
    TRIED,
    B,
    assert_alike,
    build,
    joint,
    mine,
    replicated,
    sgd,
)
from tests.optim.problems import assert_same, losses, mlp, net, weights


def uneven_batches():
    """A shorter last batch on one rank; as in plain DDP, the mean is over ranks."""
    for mode in MODES:
        for method in (SAM, CSAM, SSAM, GSAM, AESAM):
            ddp = replicated(mlp(dtype=torch.float64))
            optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
            for step, batch in enumerate(joint(4)):
                x, y = mine(batch)
                keep = 1 if step == 3 and dist.get_rank() == 0 else B
                optimizer.step(losses(ddp, x[:keep], y[:keep]))
                assert_alike(ddp)
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = CSAM(sgd(ddp.parameters()), ddp, m=2)
    for batch in joint(4):  # one part on the first rank, two on the others
        x, y = mine(batch)
        keep = 2 if dist.get_rank() == 0 else B
        optimizer.step(losses(ddp, x[:keep], y[:keep]))
        assert optimizer.facts.passes == 2
        assert_alike(ddp)


def ranks_that_run_out_of_batches():
    """With torch's Join, methods that exchange nothing but gradients; others say so."""
    for mode in MODES:
        ddp = replicated(mlp(dtype=torch.float64))
        optimizer = SAM(sgd(ddp.parameters()), ddp, perturbation=mode)
        with Join([ddp]):
            for batch in joint(3 + dist.get_rank()):
                optimizer.step(losses(ddp, *mine(batch)))
        assert optimizer.t == 3 + dist.get_rank()
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = SSAM(sgd(ddp.parameters()), ddp)
    with pytest.raises(InputError, match="under Join"), Join([ddp]):
        optimizer.step(losses(ddp, *mine(joint(1)[0])))


class Together(nn.modules.batchnorm._BatchNorm):
    """Normalises by the mean over all ranks, as SyncBatchNorm does, which torch has for GPUs only."""

    def _check_input_dim(self, _):
        pass

    def forward(self, x):
        n = dist.get_world_size()
        mean = all_reduce(x.mean((0, 2, 3))) / n
        square = all_reduce((x**2).mean((0, 2, 3))) / n
        var = square - mean**2
        if self.training and self.track_running_stats:
            with torch.no_grad():
                count = n * x.numel() / x.shape[1]
                self.num_batches_tracked += 1
                self.running_mean.lerp_(mean.detach(), self.momentum)
                self.running_var.lerp_(var.detach() * count / (count - 1), self.momentum)
        shape = (1, -1, 1, 1)
        normed = (x - mean.view(shape)) / (var.view(shape) + self.eps).sqrt()
        return normed * self.weight.view(shape) + self.bias.view(shape)


def batchnorm():
    for mode in MODES:
        for method in (SAM, SSAM, AESAM):
            model = net(dropout=0.0)
            ddp = replicated(model, find_unused_parameters=True)
            optimizer = method(sgd(p for p in ddp.parameters() if p.requires_grad), ddp, perturbation=mode)
            for batch in joint(5, shape=(1, 4, 4), dtype=torch.float32):
                optimizer.step(losses(ddp, *mine(batch)))
                assert_alike(ddp)
            assert ddp.module.norm.num_batches_tracked == 5
            with torch.no_grad():
                ddp(batch[0][:2])  # DDP hands out the first rank's statistics with the next pass, in either mode
            means = on_every_rank(ddp.module.norm.running_mean.tolist())
            assert all(mean == means[0] for mean in means), (mode, method, means)


def batchnorm_over_ranks():
    """With statistics over all ranks, synchronised is one process on the joint batch, statistics included."""
    model = net(dropout=0.0).double()
    for method, kw in ((SAM, {}), (CSAM, {"rho": 0.5}), (SSAM, {})):
        ddp, one = copy.deepcopy(model), copy.deepcopy(model)
        ddp.norm = Together(4).double()
        ddp = DDP(ddp, find_unused_parameters=True)
        ours = method(sgd(p for p in ddp.parameters() if p.requires_grad), ddp, perturbation="synchronised", **kw)
        reference = method(sgd(p for p in one.parameters() if p.requires_grad), one, **kw)
        for x, y in joint(6, shape=(1, 4, 4)):
            ours.step(losses(ddp, *mine((x, y))))
            reference.step(losses(one, x, y))
        torch.testing.assert_close(weights(ddp.module), weights(one), atol=1e-9, rtol=1e-9)
        apart = method(sgd(p for p in ddp.parameters() if p.requires_grad), ddp, **kw)
        apart.step(losses(ddp, *mine((x, y))))  # its forward passes talk, whichever way the ranks climb
        assert_alike(ddp)


class Branches(nn.Module):
    """Each rank uses a branch of its own; one branch is used by none."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(12, 6)
        self.branches = nn.ModuleList(nn.Linear(6, 3) for _ in range(dist.get_world_size() + 1))

    def forward(self, x):
        return self.branches[dist.get_rank()](self.trunk(x).tanh())


def unused_parameters():
    torch.manual_seed(0)
    model = Branches().double()
    for mode in MODES:
        for method in (SAM, CSAM, SSAM, GSAM, WSAM, AESAM, *((VASSO, LookSAM) if mode == "synchronised" else ())):
            ddp = replicated(model, find_unused_parameters=True)
            base = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
            optimizer = method(base, ddp, rho=0.2, perturbation=mode)
            for batch in joint(5):
                optimizer.step(losses(ddp, *mine(batch)))
                assert_alike(ddp)
            idle, used = ddp.module.branches[-1].weight, ddp.module.branches[0].weight
            assert torch.equal(idle, model.branches[-1].weight), (mode, method)  # no gradient, so no decay either
            assert not torch.equal(used, model.branches[0].weight)


class Poison(torch.autograd.Function):
    """Zero forward, and NaN backward: a finite loss whose gradient is not."""

    @staticmethod
    def forward(_, x):
        return torch.zeros_like(x)

    @staticmethod
    def backward(_, grad):
        return torch.full_like(grad, torch.nan)


HARM = {
    "loss": lambda out: out * torch.nan,
    "infinite loss": lambda out: out + torch.inf,
    "constant": lambda out: out + torch.nan * torch.ones_like(out),  # a NaN that no gradient would know of
    "gradient": lambda out: out + Poison.apply(out),
}


def nan_on_one_rank():
    """In either pass: all ranks refuse or skip the step, nobody waits, weights and state are untouched."""
    last = dist.get_world_size() - 1
    for mode in MODES:
        for method, kw in TRIED if last == 1 else TRIED[::2]:
            ddp = replicated(mlp(dtype=torch.float64))
            nonfinite = "raise" if kw or method in (AESAM, GSAM) else "skip"
            optimizer = build(method, ddp, mode, nonfinite=nonfinite, **kw)
            data = [mine(batch) for batch in joint(3)]
            optimizer.step(losses(ddp, *data[0]))
            for harm in HARM.values():
                for broken in (1, 2):
                    _refused(ddp, optimizer, data[1], harm, broken, last, nonfinite)
            optimizer.step(losses(ddp, *data[2]))
            assert not optimizer.facts.skipped
            assert_alike(ddp)


def _refused(ddp, optimizer, batch, harm, broken, last, nonfinite):
    before, state = weights(ddp), str(optimizer.state_dict())
    calls = []
    good = losses(ddp, *batch)

    def closure(part=slice(None)):
        calls.append(part)
        out = good(part)
        return LossTerms(harm(out), log_py=-out) if dist.get_rank() == last and len(calls) == broken else out

    closure_with_parts = type("P", (type(good),), {"__call__": lambda self, part=slice(None): closure(part)})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer.step(closure_with_parts(None, len(good)))
    except DivergedError:
        refused = "raise"
    else:
        refused = "skip" if optimizer.facts.skipped else "made"
    everyone = on_every_rank((refused, len(calls)))
    climbs = max(n for _, n in everyone) >= broken  # AE-SAM may not have made a second pass
    assert {word for word, _ in everyone} == {nonfinite if climbs else "made"}, everyone
    if climbs:
        assert_same(weights(ddp), before)
        assert str(optimizer.state_dict()) == state
    assert_alike(ddp)


def a_scaler_skips_on_all_ranks():
    last = dist.get_world_size() - 1
    for mode in MODES:
        for method in (SAM, SSAM, AESAM):
            for broken in (1, 2):
                ddp = replicated(mlp())
                optimizer = method(sgd(ddp.parameters()), ddp, perturbation=mode)
                scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
                x, y = mine(joint(1, dtype=torch.float32)[0])
                before, calls = weights(ddp), []

                def closure(x=x, y=y, ddp=ddp, calls=calls, broken=broken):
                    calls.append(1)
                    out = F.cross_entropy(ddp(x), y, reduction="none")
                    return out * torch.inf if dist.get_rank() == last and len(calls) == broken else out

                optimizer.step(closure, scaler=scaler)
                scaler.update()
                assert set(on_every_rank(scaler.get_scale())) == {512.0}, (mode, method, broken)
                assert_same(weights(ddp), before)


def closures_that_raise_everywhere():
    """On all ranks, in either pass: weights are back and training goes on as if nothing had happened."""
    for mode in MODES:
        for method in (SAM, SSAM, VASSO):
            for failing in (1, 2):
                ddp = replicated(mlp(dtype=torch.float64))
                optimizer = build(method, ddp, mode)
                before, calls = weights(ddp), []
                x, y = mine(joint(1)[0])

                def closure(x=x, y=y, ddp=ddp, calls=calls, failing=failing):
                    calls.append(1)
                    out = F.cross_entropy(ddp(x), y, reduction="none")
                    if len(calls) == failing:
                        raise KeyError("lost")
                    return out

                with pytest.raises(KeyError):
                    optimizer.step(closure)
                assert_same(weights(ddp), before)
                optimizer.step(closure)
                assert_alike(ddp)
                other = replicated(mlp(dtype=torch.float64))
                build(method, other, mode).step(losses(other, x, y))
                assert_same(weights(ddp), weights(other))


def a_closure_that_raises_on_one_rank():
    """Its weights are back, and so are those of the others once they stop waiting for it."""
    cases = ((SAM, "rank", 1), (SAM, "rank", 2), (SAM, "synchronised", 1), (GSAM, "synchronised", 2))
    for method, mode, failing in cases:
        # A group of its own for each case: one that a rank has left in the middle is of no use any more.
        group = dist.new_group(timeout=timedelta(seconds=1))
        ddp = replicated(mlp(dtype=torch.float64), process_group=group)
        optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
        before, calls = weights(ddp), []
        x, y = mine(joint(1)[0])

        def closure(x=x, y=y, ddp=ddp, calls=calls, failing=failing):
            calls.append(1)
            if dist.get_rank() == 1 and len(calls) == failing:
                raise KeyError("lost")
            return F.cross_entropy(ddp(x), y, reduction="none")

        try:
            optimizer.step(closure)
        except (KeyError, RuntimeError) as error:
            said = type(error).__name__
        else:
            said = "nothing"
        assert on_every_rank(said) == ["RuntimeError", "KeyError"], (method, mode, failing)
        assert_same(weights(ddp), before)


CHECKS = [
    uneven_batches,
    ranks_that_run_out_of_batches,
    batchnorm,
    batchnorm_over_ranks,
    unused_parameters,
    nan_on_one_rank,
    a_scaler_skips_on_all_ranks,
    closures_that_raise_everywhere,
    a_closure_that_raises_on_one_rank,
]
