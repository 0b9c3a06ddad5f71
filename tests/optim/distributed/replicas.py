"""What every check under DDP needs."""

import copy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from surefoot.method import parse_method
from surefoot.optim import build_optimizer
from surefoot.optim.aesam import AESAM
from surefoot.optim.bsam import BSAM
from surefoot.optim.csam import CSAM
from surefoot.optim.gsam import GSAM
from surefoot.optim.sam import SAM
from surefoot.optim.ssam import SSAM
from surefoot.optim.vasso import VASSO
from surefoot.optim.wsam import WSAM
from tests.optim.problems import mlp

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


def make(name, model, perturbation):
    """An optimizer by name."""
    given = "" if perturbation is None else f"{',' if ':' in name else ':'}perturbation={perturbation}"
    return build_optimizer(parse_method(name + given), model)


def modes_of(name):
    model = mlp()
    if name == "bsam":
        return MODES
    return ("synchronised",) if make(name, model, None).perturbation == "synchronised" else MODES


TRIED = [(SAM, {}), (CSAM, {"m": 2}), (SSAM, {}), (GSAM, {}), (WSAM, {}), (AESAM, {}), (VASSO, {}), (BSAM, {})]


def build(method, ddp, mode, **kw):
    if method is VASSO and mode == "rank":
        mode = None
    mode = None if "m" in kw else mode
    first = ddp.parameters() if method is BSAM else sgd(ddp.parameters())
    return method(first, ddp, rho=0.1, perturbation=mode, **kw)
