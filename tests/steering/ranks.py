"""What two ranks see and turn: ``torchrun ranks.py <folder>``; each writes what it has after every look."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

from surefoot.errors import InputError
from surefoot.optim import CSAM
from surefoot.steering import KeepCalibrated
from tests.patience import PATIENCE

Rows = tuple[Tensor, Tensor]
LOOKS, STEPS, BATCH = 3, 6, 8


def drawn(n: int, seed: int, sure: float) -> Rows:
    """Rows of which most are right, and as sure of it as ``sure`` says."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(4, (n,), generator=draw)
    shown = torch.where(torch.rand(n, generator=draw) < 0.6, labels, torch.randint(4, (n,), generator=draw))
    return sure * (2.0 * F.one_hot(shown, 4) + torch.randn(n, 4, generator=draw)), labels


def divided(first: int, n: int = 337) -> Callable[[int, int], Rows]:
    """Give the first rank so many rows, and the second one the rest; they are too sure, then less, then not enough."""

    def rows(look: int, rank: int) -> Rows:
        logits, labels = drawn(n, look, sure=(3.0, 1.5, 0.1)[look])
        return (logits[:first], labels[:first]) if rank == 0 else (logits[first:], labels[first:])

    return rows


def the_same(look: int, rank: int) -> Rows:
    return divided(337)(look, 0)


def nearly_the_same(look: int, rank: int) -> Rows:
    """As kernels of two devices give them."""
    logits, labels = the_same(look, rank)
    return logits + 1e-6 * rank * torch.randn(logits.shape, generator=torch.Generator().manual_seed(look)), labels


def of_the_same_classes(look: int, rank: int) -> Rows:
    """Other rows with the very same labels."""
    logits, labels = divided(337)(look, 0)
    return (logits, labels) if rank == 0 else (logits.flip(0)[labels.flip(0).argsort().argsort()], labels)


def ignored(look: int, rank: int) -> Rows:
    logits, labels = divided(200)(look, rank)
    return logits, labels if rank == 0 else torch.full_like(labels, -100)


def in_two_precisions(look: int, rank: int) -> Rows:
    logits, labels = divided(200)(look, rank)
    return logits.double() if rank else logits, labels


def broken(rows: Callable[[int, int], Rows], value: float) -> Callable[[int, int], Rows]:
    """Let a logit of the second rank be something else at the second look."""

    def with_it(look: int, rank: int) -> Rows:
        logits, labels = rows(look, rank)
        if (look, rank) == (1, 1):
            logits[7, 1] = value
        return logits, labels

    return with_it


CASES: dict[str, Callable[[int, int], Rows]] = {
    "halves": divided(168),
    "unequal": divided(300),
    "none on the second": divided(337),
    "none on the first": divided(0),
    "none at all": divided(0, n=0),
    "one row": divided(1, n=1),
    "ignored on the second": ignored,
    "two precisions": in_two_precisions,
    "the same": the_same,
    "nearly the same": nearly_the_same,
    "of the same classes": of_the_same_classes,
    "nan": broken(divided(200), torch.nan),
    "infinity": broken(divided(200), torch.inf),
    "nan among the same": broken(the_same, torch.nan),
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))


def keeper_of(model: nn.Module) -> KeepCalibrated:
    base = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return KeepCalibrated(CSAM(base, model, rho=0.1, gamma=1.0))


def looked(keeper: KeepCalibrated) -> dict[str, Any]:
    """All that a look has left: numbers are written so that they read back as the same bits."""
    optimizer: Any = keeper.optimizer
    assert keeper.facts is not None
    return {
        "rho": [group["rho"] for group in optimizer.param_groups],
        "gamma": optimizer.outer.gamma,
        "facts": keeper.facts.to_json(),
        "before": dict(keeper.facts.before),
        "after": dict(keeper.facts.after),
        "at_limit": list(keeper.facts.at_limit),
        "said": str(keeper.facts),
        "state": keeper.state_dict(),
    }


def looks_of(rows: Callable[[int], Rows]) -> list[dict[str, Any]]:
    """Look at rows as often as there are."""
    keeper = keeper_of(network())
    said = []
    for look in range(LOOKS):
        keeper.step(*rows(look))
        said.append(looked(keeper))
    return said


def task(n: int, seed: int, wrong: float = 0.0) -> Rows:
    """Points of four classes, some of them with a label that is drawn."""
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n, 6, generator=draw)
    labels = inputs[:, :4].argmax(1)
    swapped = torch.rand(n, generator=draw) < wrong
    return inputs, torch.where(swapped, torch.randint(4, (n,), generator=draw), labels)


def fingerprint(model: nn.Module) -> str:
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values())).hexdigest()


def trained(perturbation: str, *, from_loader: bool) -> list[dict[str, Any]]:
    """Train replicas, each on rows of its own, and look at held-out rows of its own, 40 or 130, after every epoch."""
    rank = dist.get_rank()
    model = DDP(network())
    base = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    keeper = KeepCalibrated(CSAM(base, model, rho=0.1, gamma=1.0, perturbation=perturbation))
    (inputs, labels), (x, y) = task(STEPS * BATCH, rank), task((40, 130)[rank], 10 + rank, wrong=0.5)
    said = []
    for _ in range(LOOKS):
        for a, b in zip(inputs.split(BATCH), labels.split(BATCH), strict=True):
            keeper.optimizer.step(lambda a=a, b=b: F.cross_entropy(model(a), b, reduction="none"))
        if from_loader:
            keeper.step_from(model, list(zip(x.split(25), y.split(25), strict=True)))
        else:
            with torch.no_grad():
                keeper.step(model.module(x), y)
        said.append({**looked(keeper), "weights": fingerprint(model.module)})
    return said


TRAINED = {
    f"{perturbation}, {how}": (perturbation, how == "loader")
    for perturbation in ("rank", "synchronised")
    for how in ("rows", "loader")
}


REFUSED: dict[str, Callable[[KeepCalibrated, int], object]] = {
    "labels that are none": lambda keeper, rank: keeper.step(3 * torch.eye(4), torch.arange(4) + 9 * rank),
    "an empty loader": lambda keeper, rank: keeper.step_from(nn.Identity(), [] if rank else [drawn(20, 0, 1.0)]),
    "other classes": lambda keeper, rank: keeper.step(3 * torch.eye(3 + rank), torch.arange(3 + rank)),
}


def refused(call: Callable[[KeepCalibrated, int], object]) -> str:
    """Return what a rank says to what one of them must refuse."""
    try:
        call(keeper_of(network()), dist.get_rank())
    except InputError as error:
        return str(error)
    return "nothing"


def main(folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=PATIENCE))
    rank = dist.get_rank()
    said = {name: looks_of(lambda look, rows=rows: rows(look, rank)) for name, rows in CASES.items()}
    said |= {name: trained(mode, from_loader=loader) for name, (mode, loader) in TRAINED.items()}
    said |= {name: refused(call) for name, call in REFUSED.items()}
    Path(folder, f"rank{rank}.json").write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
