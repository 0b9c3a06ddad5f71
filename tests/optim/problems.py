"""Small problems whose answers are known, and what every test of an optimizer needs."""

import torch
from torch import nn
from torch.nn import functional as F

from surefoot.curvature import hessian_top_eigenpairs
from surefoot.method import parse_method
from surefoot.optim import Parts, build_optimizer
from surefoot.optim.bulk import Projected
from surefoot.registry import OPTIMIZERS

CURVATURE = torch.tensor([1.0, 10.0], dtype=torch.float64)


def names():
    """Every registered optimizer."""
    return [part.name for part in OPTIMIZERS]


def wrappers():
    """Every registered optimizer that climbs, bsam included, which has no base."""
    return [part.name for part in OPTIMIZERS if part.facts["passes"] != 1]


class Quadratic(nn.Module):
    """L = ½ wᵀ diag(1, 10) w at w = (1, 1): g = (1, 10)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self):
        return 0.5 * CURVATURE * self.weight**2

    def closure(self):
        """Two losses whose mean is L."""
        return 2 * self()


class Net(nn.Module):
    """BatchNorm, dropout, a parameter that never gets a gradient and one that is frozen."""

    def __init__(self, dropout=0.3, norm=True):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(64, 16)
        self.head = nn.Linear(16, 3)
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        x = self.dropout(self.norm(self.conv(x)).relu()).flatten(1)
        return self.head(self.hidden(x).tanh()) + self.frozen


def net(seed=0, **kw):
    """A network with weights drawn from a seed."""
    torch.manual_seed(seed)
    return Net(**kw)


def mlp(seed=0, d=12, width=8, dtype=torch.float32):
    """A network of linear layers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, width), nn.Tanh(), nn.Linear(width, 3)).to(dtype)


def batches(n_steps=4, n=8, shape=(1, 4, 4), seed=1):
    """Random inputs and labels."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, *shape, generator=generator), torch.randint(3, (n,), generator=generator))
        for _ in range(n_steps)
    ]


class TopOfBatch:
    """The top eigenvectors on one batch, for optimizers that project; a function of the weights alone."""

    def __init__(self, model, k):
        self.model, self.k = model, k

    def __call__(self, last):
        first = next(self.model.parameters())
        x, y = batches(1, n=32, shape=(1, 4, 4) if isinstance(self.model, Net) else first.shape[1:])[0]
        return hessian_top_eigenpairs(self.model, x.to(first), y % 2, k=self.k).vectors


def make(text, model):
    """An optimizer as the command line makes it."""
    optimizer = build_optimizer(parse_method(text), model)
    if isinstance(optimizer, Projected):
        optimizer.basis = TopOfBatch(model, optimizer.k)
    return optimizer


def losses(model, x, y):
    """A closure that works for every optimizer, those that ask for parts included."""
    return Parts(lambda part: F.cross_entropy(model(x[part]), y[part], reduction="none"), n=len(y))


def train(model, optimizer, data):
    """One step per batch; gives the losses."""
    return [optimizer.step(losses(model, x, y)) for x, y in data]


def weights(model):
    """All parameters and buffers as one list of copies."""
    return [value.detach().clone() for value in model.state_dict().values()]


def assert_same(left, right):
    """Two lists of tensors agree bit for bit."""
    assert len(left) == len(right)
    differences = [(a - b).abs().max().item() for a, b in zip(left, right, strict=True) if not torch.equal(a, b)]
    assert not differences, f"{len(differences)} of {len(left)} tensors differ, by up to {max(differences)}"
