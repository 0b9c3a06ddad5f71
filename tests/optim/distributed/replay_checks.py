"""Plain loops with ``replay`` under DDP: checks run on each rank by torchrun."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from surefoot.errors import InputError
from surefoot.optim.csam import CSAM
from surefoot.optim.gsam import GSAM
from surefoot.optim.sam import SAM
from tests.optim.distributed.replicas import assert_alike, joint, mine, replicated, sgd
from tests.optim.problems import assert_same, mlp, weights


def plain(ddp, optimizer, x, y, micro=1):
    optimizer.zero_grad()
    for part, (a, b) in enumerate(zip(x.chunk(micro), y.chunk(micro), strict=True), 1):
        ddp.require_backward_grad_sync = part == micro  # what no_sync() sets
        (optimizer.loss(ddp(a), b) / micro).backward()
    optimizer.step()


def by_closure(ddp, optimizer, x, y, micro=1):
    def closure():
        optimizer.zero_grad()
        for part, (a, b) in enumerate(zip(x.chunk(micro), y.chunk(micro), strict=True), 1):
            ddp.require_backward_grad_sync = part == micro
            loss = optimizer.loss(ddp(a), b) / micro
            loss.backward()
        return loss

    optimizer.step(closure)


def replay_is_the_synchronised_step():
    for cls in (SAM, CSAM, GSAM):
        for micro in (1, 2):
            results = []
            for step, options in ((plain, {"replay": True}), (by_closure, {"perturbation": "synchronised"})):
                ddp = replicated(mlp(dtype=torch.float64))
                optimizer = cls(sgd(ddp.parameters()), ddp, **options)
                for batch in joint(5):
                    step(ddp, optimizer, *mine(batch), micro=micro)
                assert_alike(ddp)
                results.append(weights(ddp.module))
            assert_same(*results)


def refused(match, model, optimizer, x, y, then=lambda: None):
    before = weights(model)
    optimizer.zero_grad()
    optimizer.loss(model(x), y).backward()
    then()
    with pytest.raises(InputError, match=match):
        optimizer.step()
    assert_same(weights(model), before)


def replay_without_shared_gradients_is_refused():
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = CSAM(sgd(ddp.parameters()), ddp, replay=True)
    x, y = mine(joint(1)[0])
    with ddp.no_sync():
        refused(
            "Expected gradients averaged over ranks with replay, but got a last pass under no_sync",
            ddp,
            optimizer,
            x,
            y,
        )
    optimizer.zero_grad()
    plain(ddp, optimizer, x, y)
    assert_alike(ddp)


def replay_of_the_network_inside_is_refused():
    """It would repeat the pass without DDP, and the ranks would drift apart."""
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = CSAM(sgd(ddp.parameters()), ddp.module, replay=True)
    x, y = mine(joint(1)[0])
    refused("Expected the DistributedDataParallel model with replay, but got Sequential", ddp, optimizer, x, y)
    optimizer.model = ddp
    plain(ddp, optimizer, x, y)
    assert_alike(ddp)


def replay_after_clipping_is_refused():
    """DDP writes to the gradients once after autograd has; whoever else does is seen."""
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = CSAM(sgd(ddp.parameters()), ddp, replay=True)
    x, y = mine(joint(1)[0])
    refused(
        r"Expected gradients as backward\(\) left them", ddp, optimizer, x, y,
        then=lambda: nn.utils.clip_grad_norm_(ddp.parameters(), 100.0),
    )  # fmt: skip
    views = replicated(mlp(dtype=torch.float64), gradient_as_bucket_view=True)
    optimizer = CSAM(sgd(views.parameters()), views, replay=True)
    refused("Expected gradients that DDP writes to once", views, optimizer, x, y)


def a_term_on_one_rank_is_found_by_all():
    ddp = replicated(mlp(dtype=torch.float64))
    optimizer = CSAM(sgd(ddp.parameters()), ddp, replay=True)
    x, y = mine(joint(1)[0])
    optimizer.zero_grad()
    loss = optimizer.loss(ddp(x), y)
    if dist.get_rank() == 0:
        loss = loss + sum(parameter.square().sum() for parameter in ddp.parameters())
    loss.backward()
    with pytest.raises(InputError, match="Expected the same gradient from the same pass"):
        optimizer.step()


CHECKS = [
    replay_is_the_synchronised_step,
    replay_without_shared_gradients_is_refused,
    replay_of_the_network_inside_is_refused,
    replay_after_clipping_is_refused,
    a_term_on_one_rank_is_found_by_all,
]
