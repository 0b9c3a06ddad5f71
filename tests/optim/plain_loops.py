"""A plain loop and the same loop with a closure, for tests of ``replay``."""

import torch

from surefoot.optim import ASAM, CSAM, SAM
from tests.optim.problems import batches, net, weights

METHODS = {"sam": SAM, "csam": CSAM, "asam": ASAM}
(X, Y), (X2, Y2) = batches(2)


def make(cls, model, **options):
    return cls(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, **options)


def setup(cls=CSAM, **options):
    model = net()
    torch.manual_seed(0)
    return model, make(cls, model, **{"replay": True, **options})


def bf16(on=True):
    return torch.autocast("cpu", torch.bfloat16, enabled=on)


def plain(model, optimizer, x=X, y=Y, micro=1, low=False):
    """The loop of every tutorial."""
    optimizer.zero_grad()
    for a, b in zip(x.chunk(micro), y.chunk(micro), strict=True):
        with bf16(low):
            loss = optimizer.loss(model(a), b) / micro
        loss.backward()
    optimizer.step()


def by_closure(model, optimizer, x=X, y=Y, micro=1, low=False):
    def closure():
        optimizer.zero_grad()
        for a, b in zip(x.chunk(micro), y.chunk(micro), strict=True):
            with bf16(low):
                loss = optimizer.loss(model(a), b) / micro
            loss.backward()
        return loss

    optimizer.step(closure)


def trained(step, cls, data, options=None, **kw):
    """What a loop makes of a network, and how often it was called per step."""
    model = net()
    optimizer = make(cls, model, **(options or {}))
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    torch.manual_seed(0)
    counts = []
    for x, y in data:
        before = len(calls)
        step(model, optimizer, x, y, **kw)
        counts.append(len(calls) - before)
    return weights(model), counts, model
