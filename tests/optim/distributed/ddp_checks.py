"""What ranks mean under DDP: checks run on each of them by torchrun."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.optim.aesam import AESAM
from surefoot.optim.bsam import BSAM
from surefoot.optim.csam import CSAM
from surefoot.optim.gnp import GNP, Mix
from surefoot.optim.gsam import GSAM, SurrogateGap
from surefoot.optim.looksam import LookSAM
from surefoot.optim.rst import RST
from surefoot.optim.sam import SAM
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.optim.ssam import SSAM
from surefoot.optim.wsam import WSAM
from tests.optim.distributed.launch import on_every_rank
from tests.optim.distributed.replicas import (
    MODES,
    TRIED,
    B,
    Traffic,
    assert_alike,
    build,
    joint,
    make,
    mine,
    modes_of,
    replicated,
    sgd,
)
from tests.optim.problems import assert_same, losses, mlp, weights, wrappers


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
    for method in (SAM, CSAM):
        rank = counts(lambda ddp, method=method: method(sgd(ddp.parameters()), ddp))
        assert rank == [[(0, 0), (0, 0), (1, 0)]] * 3, rank
        both = counts(lambda ddp, method=method: method(sgd(ddp.parameters()), ddp, perturbation="synchronised"))
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


def ranks_stay_alike():
    """Every registered method, in every mode it has, after every step, with its own dropout mask on each rank."""
    for name in [*wrappers(), "sam:stable=true", "wsam:decouple=false", "csam:m=2", "csam:ascent=esam"]:
        for mode in modes_of(name) if "m=" not in name else ("rank",):
            model = nn.Sequential(mlp(), nn.Dropout(0.2)).append(nn.Linear(3, 3))
            ddp = replicated(model)
            optimizer = make(name, ddp, mode)
            torch.manual_seed(dist.get_rank())
            n_steps = 120 if name in ("sam", "csam") else 16
            for batch in joint(n_steps // dist.get_world_size(), dtype=torch.float32):
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
    with pytest.raises(AssertionError, match="ranks differ by"):
        assert_alike(ddp)


def compare(make_ddp, make_one, model=None, tolerance=1e-10):
    """Ranks together against one process on the joint batch."""
    model = model or mlp(dtype=torch.float64)
    ddp, one = replicated(model), copy.deepcopy(model)
    ours, reference = make_ddp(ddp), make_one(one)
    for x, y in joint(12 // dist.get_world_size()):
        ours.step(losses(ddp, *mine((x, y))))
        reference.step(losses(one, x, y))
    assert_alike(ddp)
    torch.testing.assert_close(weights(ddp.module), weights(one), atol=tolerance, rtol=tolerance)
    assert not torch.equal(weights(one)[0], weights(model)[0])


def synchronised_is_one_process_on_the_joint_batch():
    """For all methods but ESAM, whose ranks choose examples each among their own."""
    for name in [name for name in wrappers() if name != "esam"]:
        compare(lambda ddp, name=name: make(name, ddp, "synchronised"), lambda one, name=name: make(name, one, None))


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
    data = joint(16)
    for mode in MODES:
        for method in (RST, AESAM):
            ddp = replicated(mlp(dtype=torch.float64))
            optimizer = method(sgd(ddp.parameters()), ddp, rho=0.2, perturbation=mode)
            climbed = []
            for batch in data:
                x, y = mine(batch)
                # Gradients of very different size, so that ranks would disagree if each looked at its own.
                scale = 10.0 if dist.get_rank() == int(x[0, 0] > 0) else 0.1
                optimizer.step(
                    lambda x=x, y=y, ddp=ddp, scale=scale: scale * F.cross_entropy(ddp(x), y, reduction="none")
                )
                climbed.append(optimizer.facts.climbed)
                assert_alike(ddp)
            assert set(climbed) == {True, False}, climbed
            assert len({tuple(decided) for decided in on_every_rank(climbed)}) == 1
    norms = on_every_rank(float(dist.get_rank()))
    assert len(set(norms)) == dist.get_world_size()  # the helper does see differences


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
    with pytest.raises(InputError, match=r"Expected a DistributedDataParallel model .*, but got Sequential"):
        optimizer.step(losses(ddp, *mine(joint(1)[0])))


CHECKS = [
    no_message_in_the_clean_pass,
    the_counter_sees_the_recipe_that_shares_in_vain,
    ranks_stay_alike,
    ranks_drift_if_they_restore_by_subtraction,
    synchronised_is_one_process_on_the_joint_batch,
    rank_is_one_process_with_parts,
    decisions_are_alike,
    accumulation,
    resuming,
    explicit_loops,
    gradients_that_lie_in_buckets,
    noise_of_bsam,
    the_model_must_be_the_replicated_one,
]
