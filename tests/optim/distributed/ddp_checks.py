"""Checks of the optimizers under DDP, run on every rank by torchrun."""

import copy
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.nn.functional import all_reduce
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from surefoot.errors import DivergedError, InputError
from surefoot.method import parse_method
from surefoot.optim import build_optimizer
from surefoot.optim._sharpness import SharpnessAware
from surefoot.optim.aesam import AESAM
from surefoot.optim.bsam import BSAM
from surefoot.optim.csam import CSAM
from surefoot.optim.gnp import GNP, Mix
from surefoot.optim.gsam import GSAM, SurrogateGap
from surefoot.optim.looksam import LookSAM
from surefoot.optim.rst import RST
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from tests.optim.distributed.launch import on_every_rank, run_checks
from tests.optim.problems import assert_same, losses, mlp, net, weights, wrappers

B = 4  # examples per rank
MODES = ("rank", "synchronised")


def sgd(params, lr=0.1, momentum=0.9):
    return torch.optim.SGD(params, lr=lr, momentum=momentum)


def joint(n_steps, shape=(12,), seed=1, dtype=torch.float64):
    """Batches for all ranks together."""
    draw = torch.Generator().manual_seed(seed)
    n = B * dist.get_world_size()
    return [
        (torch.randn(n, *shape, generator=draw, dtype=dtype), torch.randint(3, (n,), generator=draw))
        for _ in range(n_steps)
    ]


def mine(batch):
    """This rank's share of a joint batch."""
    here = slice(dist.get_rank() * B, (dist.get_rank() + 1) * B)
    return batch[0][here], batch[1][here]


def replicated(model, **kw):
    return DDP(copy.deepcopy(model), **kw)


def assert_alike(model):
    """Parameters are the same on all ranks, bit for bit."""
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    all_flat = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(all_flat, flat)
    for other in all_flat:
        assert torch.equal(other, all_flat[0]), f"ranks differ by {(other - all_flat[0]).abs().max():.3g}"


class Traffic:
    """Counts the gradient all-reduces of DDP and the collectives that are called from Python."""

    def __init__(self, ddp):
        self.gradients = self.others = 0
        self.group = ddp.process_group
        ddp.register_comm_hook(None, self.hook)
        self._all_reduce = dist.all_reduce

    def hook(self, _, bucket):
        self.gradients += 1
        work = dist.distributed_c10d._get_default_group().allreduce([bucket.buffer().div_(dist.get_world_size())])
        return work.get_future().then(lambda done: done.value()[0])

    def __enter__(self):
        def counted(*args, **kw):
            self.others += 1
            return self._all_reduce(*args, **kw)

        dist.all_reduce = counted
        return self

    def __exit__(self, *_):
        dist.all_reduce = self._all_reduce


def counts(make, model=None, data=None):
    """Messages so far (DDP's, our own) at the start of each pass and at the end, per step."""
    ddp = replicated(model or mlp(dtype=torch.float64))
    optimizer = make(ddp)
    seen = []
    with Traffic(ddp) as traffic:
        for x, y in data or map(mine, joint(3)):
            seen.append([])

            def closure(x=x, y=y):
                seen[-1].append((traffic.gradients, traffic.others))
                return F.cross_entropy(ddp(x), y, reduction="none")

            before = traffic.gradients, traffic.others
            optimizer.step(closure)
            seen[-1].append((traffic.gradients, traffic.others))
            seen[-1] = [(a - before[0], b - before[1]) for a, b in seen[-1]]
    return seen


def no_message_in_the_clean_pass():
    for make in (SAM, CSAM):
        rank = counts(lambda ddp, make=make: make(sgd(ddp.parameters()), ddp))
        assert rank == [[(0, 0), (0, 0), (1, 0)]] * 3, rank
        both = counts(lambda ddp, make=make: make(sgd(ddp.parameters()), ddp, perturbation="synchronised"))
        assert both == [[(0, 0), (1, 0), (2, 0)]] * 3, both
    late = counts(lambda ddp: SSAM(sgd(ddp.parameters()), ddp))  # our own message, after both passes
    assert late == [[(0, 0), (0, 0), (0, 1)]] * 3, late
    coin = counts(lambda ddp: RST(sgd(ddp.parameters()), ddp, p=0.0))  # a step without climb shares its only pass
    assert coin == [[(0, 0), (1, 0)]] * 3, coin
    unknown = counts(lambda ddp: SAM(sgd(ddp.parameters()), ddp.module))  # nobody told the optimizer of DDP
    assert unknown == [[(0, 0), (1, 0), (2, 0)]] * 3, unknown


def the_counter_sees_the_recipe_that_shares_in_vain():
    """With the forward pass outside of ``no_sync``, as a peer advises, the clean gradient is shared after all."""
    ddp = replicated(mlp(dtype=torch.float64))
    x, y = mine(joint(1)[0])
    with Traffic(ddp) as traffic:
        loss = F.cross_entropy(ddp(x), y)
        with ddp.no_sync():
            loss.backward()
        assert traffic.gradients == 1
        with ddp.no_sync():
            F.cross_entropy(ddp(x), y).backward()
        assert traffic.gradients == 1


def modes_of(name):
    model = mlp()
    if name == "bsam":
        return MODES
    return ("synchronised",) if make(name, model, None).perturbation == "synchronised" else MODES


def make(name, model, perturbation):
    """An optimizer by name; the registry has no option for what only distributed runs need."""
    spec = parse_method(name)
    optimizer = build_optimizer(spec, model)
    if perturbation is not None:
        optimizer._settle(perturbation)
    return optimizer


def ranks_stay_alike(n_steps=12):
    """Every registered method, in every mode it has, after every step, with its own dropout mask on each rank."""
    for name in [*wrappers(), "sam:stable=true", "wsam:decouple=false", "csam:m=2", "csam:ascent=esam"]:
        for mode in modes_of(name) if "m=" not in name else ("rank",):
            model = nn.Sequential(mlp(), nn.Dropout(0.2)).append(nn.Linear(3, 3))
            ddp = replicated(model)
            optimizer = make(name, ddp, mode)
            torch.manual_seed(dist.get_rank())
            for batch in joint(n_steps, dtype=torch.float32):
                optimizer.step(losses(ddp, *mine(batch)))
                assert_alike(ddp)
            assert not torch.equal(ddp.module[0][0].weight, model[0][0].weight)
            facts = on_every_rank((optimizer.t, optimizer.facts.climbed, optimizer.facts.passes))
            assert len(set(facts)) == 1, facts


def ranks_drift_if_they_restore_by_subtraction():
    """The check above can fail: a loop that is known to let ranks drift does so."""
    ddp = replicated(mlp())
    base = sgd(ddp.parameters())
    for batch in joint(60, dtype=torch.float32):
        x, y = mine(batch)
        base.zero_grad()
        with ddp.no_sync():
            F.cross_entropy(ddp(x), y).backward()
        norm = torch.stack([p.grad.norm() for p in ddp.parameters()]).norm()
        steps = [p.grad * (0.2 / norm) for p in ddp.parameters()]
        with torch.no_grad():
            torch._foreach_add_(list(ddp.parameters()), steps)
        base.zero_grad()
        F.cross_entropy(ddp(x), y).backward()
        with torch.no_grad():
            torch._foreach_sub_(list(ddp.parameters()), steps)
        base.step()
    try:
        assert_alike(ddp)
    except AssertionError as error:
        assert "ranks differ by" in str(error)
    else:
        raise AssertionError("Expected drift.")


def compare(make_ddp, make_one, n_steps=10, model=None, tolerance=1e-10):
    """Ranks together against one process on the joint batch."""
    model = model or mlp(dtype=torch.float64)
    ddp, one = replicated(model), copy.deepcopy(model)
    ours, reference = make_ddp(ddp), make_one(one)
    for x, y in joint(n_steps):
        ours.step(losses(ddp, *mine((x, y))))
        reference.step(losses(one, x, y))
    assert_alike(ddp)
    torch.testing.assert_close(weights(ddp.module), weights(one), atol=tolerance, rtol=tolerance)
    assert not torch.equal(weights(one)[0], weights(model)[0])


def synchronised_is_one_process_on_the_joint_batch():
    """For all methods but ESAM, whose ranks choose examples each among their own."""
    for name in [name for name in wrappers() if name != "esam"]:
        compare(
            lambda ddp, name=name: make(name, ddp, "synchronised"), lambda one, name=name: make(name, one, None)
        )


def rank_is_one_process_with_parts():
    """A rank is a part of m examples of the joint batch: m-sharpness, for every method that can."""
    gap = {"gsam": (GSAM, SurrogateGap(0.4)), "gnp": (GNP, Mix(0.8))}
    noise = {"lr": 0.05, "rho": 0.1, "n_train": 50}
    compare(lambda d: SAM(sgd(d.parameters()), d), lambda o: SAM(sgd(o.parameters()), o, m=B))
    compare(lambda d: CSAM(sgd(d.parameters()), d, m=2), lambda o: CSAM(sgd(o.parameters()), o, m=2))
    compare(
        lambda d: CSAM(sgd(d.parameters()), d, ascent="asam", stable=True),
        lambda o: CSAM(sgd(o.parameters()), o, ascent="asam", stable=True, m=B),
    )
    for method, descent in gap.values():
        compare(
            lambda d, method=method: method(sgd(d.parameters()), d, rho=0.2),
            lambda o, descent=descent: SharpnessAware(sgd(o.parameters()), o, rho=0.2, descent=descent, m=B),
        )
    # Without momentum, WSAM is a mixture of both gradients.
    compare(
        lambda d: WSAM(sgd(d.parameters(), momentum=0), d, rho=0.2, gamma=0.6),
        lambda o: SharpnessAware(sgd(o.parameters(), momentum=0), o, rho=0.2, descent=Mix(1.5), m=B),
    )
    compare(lambda d: BSAM(d.parameters(), d, **noise), lambda o: BSAM(o.parameters(), o, m=B, **noise))


def decisions_are_alike():
    """Coins are tossed alike, and AE-SAM decides by the norm of all ranks; both outcomes are seen."""
    data = joint(24)
    for mode in MODES:
        for method in (RST, AESAM):
            ddp = replicated(mlp(dtype=torch.float64))
            optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
            climbed = []
            for batch in data:
                x, y = mine(batch)
                # Gradients of very different size, so that ranks would disagree if each looked at its own.
                scale = 10.0 if dist.get_rank() == int(x[0, 0] > 0) else 0.1
                optimizer.step(lambda x=x, y=y, ddp=ddp, scale=scale: scale * F.cross_entropy(ddp(x), y, reduction="none"))
                climbed.append(optimizer.facts.climbed)
                assert_alike(ddp)
            assert set(climbed) == {True, False}, climbed
            assert len({tuple(decided) for decided in on_every_rank(climbed)}) == 1
    norms = on_every_rank(float(dist.get_rank()))
    assert len(set(norms)) == dist.get_world_size()  # the helper does see differences


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
    for step, batch in enumerate(joint(4)):  # one part on the first rank, two on the others
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
    try:
        with Join([ddp]):
            optimizer.step(losses(ddp, *mine(joint(1)[0])))
    except InputError as error:
        assert "under Join" in str(error)
    else:
        raise AssertionError("Expected an error.")


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


def accumulation():
    """Micro-batches with ``no_sync`` in the closure: one message per shared pass, and the large batch's result."""
    for mode in MODES:
        for method in (CSAM, SSAM):
            ddp = replicated(mlp(dtype=torch.float64))
            optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
            whole = replicated(mlp(dtype=torch.float64))
            reference = method(sgd(whole.parameters()), whole, rho=0.2, perturbation=mode)
            with Traffic(ddp) as traffic:
                for batch in joint(4):
                    x, y = mine(batch)

                    def closure(x=x, y=y, ddp=ddp, optimizer=optimizer):
                        with ddp.no_sync():
                            first = optimizer.loss(ddp(x[:2]), y[:2]) / 2
                            first.backward()
                        second = optimizer.loss(ddp(x[2:]), y[2:]) / 2
                        second.backward()
                        return (first + second).detach()

                    optimizer.step(closure)
                    assert_alike(ddp)
                    reference.step(losses(whole, x, y))
            messages = {"rank": 4, "synchronised": 8}[mode]
            assert (traffic.gradients or traffic.others // 2) == messages, (mode, method, traffic.gradients)
            torch.testing.assert_close(weights(ddp), weights(whole), atol=1e-10, rtol=1e-10)


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
TRIED = [(SAM, {}), (CSAM, {"m": 2}), (SSAM, {}), (GSAM, {}), (WSAM, {}), (AESAM, {}), (VASSO, {}), (BSAM, {})]


def build(method, ddp, mode, **kw):
    if method is VASSO and mode == "rank":
        mode = None
    mode = None if "m" in kw else mode
    first = ddp.parameters() if method is BSAM else sgd(ddp.parameters())
    return method(first, ddp, rho=0.1, perturbation=mode, **kw)


def nan_on_one_rank():
    """In either pass: all ranks refuse or skip the step, nobody waits, weights and state are untouched."""
    last = dist.get_world_size() - 1
    for mode in MODES:
        for method, kw in TRIED:
            for nonfinite in ("raise", "skip"):
                ddp = replicated(mlp(dtype=torch.float64))
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
        return harm(out) if dist.get_rank() == last and len(calls) == broken else out

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

                try:
                    optimizer.step(closure)
                except KeyError:
                    assert_same(weights(ddp), before)
                else:
                    raise AssertionError("Expected the closure's error.")
                optimizer.step(closure)
                assert_alike(ddp)
                other = replicated(mlp(dtype=torch.float64))
                build(method, other, mode).step(losses(other, x, y))
                assert_same(weights(ddp), weights(other))


def resuming():
    """The first rank's state restores all of them: nothing that is remembered differs between ranks."""
    for mode in MODES:
        for method, kw in [*TRIED, (LookSAM, {"k": 2}), (RST, {})]:
            if method is LookSAM and mode == "rank":
                continue
            data = [mine(batch) for batch in joint(6)]
            ddp = replicated(mlp(dtype=torch.float64))
            optimizer = build(method, ddp, mode, **kw)
            for batch in data[:3]:
                optimizer.step(losses(ddp, *batch))
            kept = [copy.deepcopy((ddp.module.state_dict(), optimizer.state_dict())) if not dist.get_rank() else None]
            for batch in data[3:]:
                optimizer.step(losses(ddp, *batch))
            dist.broadcast_object_list(kept)
            fresh = replicated(mlp(seed=9, dtype=torch.float64))
            resumed = build(method, fresh, mode, **kw)
            fresh.module.load_state_dict(kept[0][0])
            resumed.load_state_dict(kept[0][1])
            for batch in data[3:]:
                resumed.step(losses(fresh, *batch))
            assert_same(weights(fresh), weights(ddp))


def explicit_loops():
    """``clean()`` and ``perturbed()`` give what the closure gives; without ``clean()`` the ranks climb together."""
    for method in (SAM, CSAM, SSAM, GSAM, WSAM, AESAM):
        for surrounded, mode in ((True, "rank"), (True, "synchronised"), (False, "synchronised")):
            ddp, other = replicated(mlp(dtype=torch.float64)), replicated(mlp(dtype=torch.float64))
            optimizer = method(sgd(ddp.parameters()), ddp, perturbation=mode if surrounded else None)
            reference = method(sgd(other.parameters()), other, perturbation=mode)
            for batch in joint(5):
                x, y = mine(batch)
                optimizer.zero_grad()
                if surrounded:
                    with optimizer.clean():
                        optimizer.loss(ddp(x), y).backward()
                else:
                    optimizer.loss(ddp(x), y).backward()
                if optimizer.climbs:
                    with optimizer.perturbed():
                        optimizer.loss(ddp(x), y).backward()
                optimizer.step()
                reference.step(losses(other, x, y))
                assert_alike(ddp)
            assert_same(weights(ddp), weights(other))


def gradients_that_lie_in_buckets():
    """The second backward pass writes where DDP let the clean gradients lie."""
    for mode in MODES:
        for method in (SAM, GSAM, WSAM, GNP, SSAM):
            results = []
            for view in (True, False):
                ddp = replicated(mlp(dtype=torch.float64), gradient_as_bucket_view=view)
                optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
                for batch in joint(5):
                    optimizer.step(losses(ddp, *mine(batch)))
                results.append(weights(ddp))
            assert_same(*results)


def noise_of_bsam():
    """Ranks that climb apart draw each their own sample; those that climb together draw the same one."""
    for mode, n_samples in (("rank", dist.get_world_size()), ("synchronised", 1)):
        ddp = replicated(mlp(dtype=torch.float64))
        optimizer = BSAM(ddp.parameters(), ddp, n_train=10, perturbation=mode)
        first = next(ddp.parameters())
        with optimizer.clean():
            sample = first.flatten().tolist()
        assert len({tuple(drawn) for drawn in on_every_rank(sample)}) == n_samples


def the_model_must_be_the_replicated_one():
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = SAM(sgd(ddp.parameters()), ddp.module, perturbation="rank")
    try:
        optimizer.step(losses(ddp, *mine(joint(1)[0])))
    except InputError as error:
        assert "Expected a DistributedDataParallel model for perturbation='rank', but got Sequential" in str(error)
    else:
        raise AssertionError("Expected an error.")


TWO = [
    no_message_in_the_clean_pass,
    the_counter_sees_the_recipe_that_shares_in_vain,
    ranks_stay_alike,
    ranks_drift_if_they_restore_by_subtraction,
    synchronised_is_one_process_on_the_joint_batch,
    rank_is_one_process_with_parts,
    decisions_are_alike,
    uneven_batches,
    ranks_that_run_out_of_batches,
    batchnorm,
    batchnorm_over_ranks,
    unused_parameters,
    accumulation,
    nan_on_one_rank,
    a_scaler_skips_on_all_ranks,
    closures_that_raise_everywhere,
    resuming,
    explicit_loops,
    gradients_that_lie_in_buckets,
    noise_of_bsam,
    the_model_must_be_the_replicated_one,
]
FOUR = [
    no_message_in_the_clean_pass,
    ranks_stay_alike,
    synchronised_is_one_process_on_the_joint_batch,
    rank_is_one_process_with_parts,
    decisions_are_alike,
    unused_parameters,
    nan_on_one_rank,
]


if __name__ == "__main__":
    import os

    chosen = TWO if os.environ["WORLD_SIZE"] == "2" else FOUR
    run_checks({check.__name__: check for check in chosen}, sys.argv[1])
