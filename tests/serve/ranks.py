"""A loop of one's own on two ranks: ``torchrun ranks.py <folder>``; each writes what it has trained."""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

import surefoot as sf
from surefoot.errors import InputError
from surefoot.optim import CSAM
from tests.patience import PATIENCE

STEPS = 12


def train(out: Path | None) -> tuple[int, str]:
    """Train with BatchNorm, whose statistics DDP exchanges in every forward pass, and say to which weights."""
    torch.manual_seed(0)
    x, y = torch.randn(120, 6), torch.arange(120) % 3
    model = DDP(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer = CSAM(torch.optim.SGD(model.parameters(), lr=0.1), model=model, rho=0.05, gamma=1.0)
    mine = torch.arange(dist.get_rank(), 60, dist.get_world_size())
    data = {"train": (x[:60], y[:60]), "calibration": (x[60:90], y[60:90]), "test": (x[90:], y[90:])}
    watched = None
    if out is not None:
        options = {"track": "cheap,gn_sharpness:every=4", "epochs": 2, "steps_per_epoch": STEPS // 2, **data}
        watched = sf.watch(optimizer, model, out=out, **options)  # type: ignore[arg-type]
        watched.__enter__()

    def closure() -> Tensor:
        return F.cross_entropy(model(x[mine]), y[mine], reduction="none")

    for _ in range(STEPS):
        loss = optimizer.step(closure)
        if watched is not None:
            watched(loss)
    if watched is not None:
        watched.__exit__(None, None, None)
    weights = b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values())
    return (0 if watched is None else watched.step), hashlib.sha256(weights).hexdigest()


def sharded(out: Path) -> str:
    """Say what a network without a whole copy anywhere is answered."""
    model = nn.Linear(6, 3)
    fully_shard(model)
    rows = torch.randn(4, 6), torch.zeros(4, dtype=torch.long)
    try:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sf.watch(optimizer, model, out=out, train=rows, test=rows, epochs=1, steps_per_epoch=1)
    except InputError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    _, plain = train(None)
    step, watched = train(folder / "run")
    said = {"same": plain == watched, "step": step, "sharded": sharded(folder / "sharded")}
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()
