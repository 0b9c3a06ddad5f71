"""What one rank of ``scale.py`` does: ``torchrun … _scale_ranks.py PART FOLDER '{options}'`` writes what it found."""

from __future__ import annotations

import gc
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _scale_group import WatchedGroup, start, wired
from _scale_model import FLOAT, Message
from _scale_times import Link
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from surefoot.optim import CSAM, GSAM, SAM

Step = Callable[[], Any]
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sam": lambda base, model: SAM(base, model, rho=0.05),
    "csam": lambda base, model: CSAM(base, model, rho=0.05),
    "sam, synchronised": lambda base, model: SAM(base, model, rho=0.05, perturbation="synchronised"),
    "csam, synchronised": lambda base, model: CSAM(base, model, rho=0.05, perturbation="synchronised"),
    "sam, stable": lambda base, model: SAM(base, model, rho=0.05, stable=True),
    "gsam": lambda base, model: GSAM(base, model, rho=0.05),
}
BATCH = 6  # examples per rank where tensors are counted; no parameter has as many rows
ROWS = (("ddp", "sgd"), *(("ddp", name) for name in OPTIMIZERS), *(("fsdp2", name) for name in ("sgd", "sam", "csam")))


def perceptron(widths: tuple[int, ...]) -> nn.Sequential:
    """Make linear layers with ReLUs between them; the last one is left to FSDP's root."""
    pairs = pairwise(widths)
    return nn.Sequential(*(layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())))[:-1]


def spread(network: nn.Sequential, how: str) -> nn.Module:
    """Replicate or shard a network."""
    if how == "ddp":
        return DistributedDataParallel(network)
    for layer in network[:-1]:
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    return fully_shard(network)


def stepper(model: nn.Module, name: str, loss: Callable[[], Tensor], before: Step = lambda: None) -> Step:
    """Return what makes one step; ``before`` is called before each of its passes, when gradients are cleared."""
    base = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    optimizer = None if name == "sgd" else OPTIMIZERS[name](base, model)

    def losses() -> Tensor:
        before()
        return loss()

    def plain() -> None:
        base.zero_grad()
        losses().mean().backward()
        base.step()

    return plain if optimizer is None else lambda: optimizer.step(losses)


def live() -> dict[int, int]:
    """Return the bytes of all memory that floating tensors hold, by address; not single numbers and rows of a batch."""
    found = {}
    for each in gc.get_objects():
        if not issubclass(type(each), Tensor) or hasattr(each, "device_mesh") or not each.is_floating_point():
            continue
        if each.ndim > 0 and each.shape[0] != BATCH:
            memory = each.untyped_storage()
            found[memory.data_ptr()] = memory.nbytes()
    return found


def count(group: WatchedGroup, how: str, name: str, widths: tuple[int, ...], steps: int = 5) -> dict[str, Any]:
    """Count the messages of a step, the bytes on the wire and the bytes of tensors."""
    gc.collect()
    known = live()
    network = perceptron(widths)
    model = spread(network, how)
    x, y = torch.randn(BATCH, widths[0]), torch.randint(widths[-1], (BATCH,))
    peaks: list[int] = []

    def look(message: Message | None = None) -> None:
        grads = [parameter.grad for parameter in model.parameters()]  # so that Python knows of them
        peaks.append(sum(size for place, size in live().items() if place not in known))
        del grads

    for _ in range(2):  # DDP plans its buckets in the second, and Python knows of those that it has sent
        cross_entropy(model(x), y).backward()
        model.zero_grad()
    step = stepper(model, name, lambda: cross_entropy(model(x), y, reduction="none"))
    for _ in range(2):
        step()
    group.messages.clear()
    dist.barrier()
    before = wired()
    for _ in range(steps):
        step()
    dist.barrier()
    per_step = (wired() - before) / steps
    messages = [message for message in group.messages if message.kind != "barrier"]

    watched = stepper(model, name, lambda: cross_entropy(model(x), y, reduction="none"), look)
    del step
    gc.collect()
    watched()
    peaks.clear()
    group.seen = look if how == "ddp" else None  # FSDP's gathered blocks are not counted
    watched()
    group.seen = None
    if how == "ddp":
        look()
        peak = max(peaks)
    else:
        shards = [p.grad._local_tensor.untyped_storage() for p in model.parameters()]
        peak = peaks[-1] + sum({shard.data_ptr(): shard.nbytes() for shard in shards}.values())
    return {
        "messages": [[message.kind, message.n_bytes] for message in messages[: len(messages) // steps]],
        "steady": len(messages) % steps == 0,
        "wire": per_step,
        "memory": peak,
    }


def count_all(group: WatchedGroup, options: dict[str, Any]) -> dict[str, Any]:
    """Count for all ways to spread a network and all optimizers."""
    widths = tuple(options["widths"])
    rows = [row for row in ROWS if options.get("rows") is None or list(row) in options["rows"]]
    return {"/".join(row): count(group, *row, widths) for row in rows}


def median_seconds(steps: dict[str, Step], turns: int) -> dict[str, float]:
    """Return each one's median seconds, made in turns."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for name in names:
        steps[name]()
        steps[name]()
    for turn in range(turns):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            dist.barrier()
            begin = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def time_all(group: WatchedGroup, options: dict[str, Any]) -> dict[str, Any]:
    """Time steps on real layers, beside bare messages of no length and of that of all gradients."""
    widths, batch = tuple(options["widths"]), options["batch"]
    x, y = torch.randn(batch, widths[0]), torch.randint(widths[-1], (batch,))
    steps: dict[str, Step] = {}
    for name in ("sgd", "csam", "csam, synchronised"):
        model = spread(perceptron(widths), "ddp")
        steps[name] = stepper(model, name, lambda model=model: cross_entropy(model(x), y, reduction="none"))
    for name in ("sgd", "csam"):  # without DDP: nothing is sent
        alone = perceptron(widths)
        unshared = stepper(alone, name, lambda model=alone: cross_entropy(model(x), y, reduction="none"))
        steps[f"{name}, unshared"] = unshared
    few, all_ = torch.zeros(1), torch.zeros(sum(p.numel() for p in alone.parameters()))
    steps |= {
        "message": lambda: dist.all_reduce(few),
        "messages": lambda: dist.all_reduce(all_),
    }
    return {
        "seconds": median_seconds(steps, options["turns"]),
        "sizes": [FLOAT * p.numel() for p in alone.parameters()],
    }


class Busy(torch.autograd.Function):
    """A layer that takes its time and gives a gradient, as a GPU would without a core of this machine."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, seconds: float) -> Tensor:
        """Wait once."""
        ctx.seconds, ctx.shape = seconds, weight.shape
        time.sleep(seconds)
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[override]
        """Wait twice as long."""
        time.sleep(2 * ctx.seconds)
        return grad, torch.full(ctx.shape, 1e-3), None


class Waiting(nn.Module):
    """Layers that wait."""

    def __init__(self, layers: int, numbers: int, seconds: float) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.zeros(numbers) for _ in range(layers))
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        """Go through all of them."""
        for weight in self.weights:
            x = Busy.apply(x, weight, self.seconds)
        return x


def delay_all(group: WatchedGroup, options: dict[str, Any]) -> dict[str, Any]:
    """Time steps behind networks of several speeds; computation waits, and so do messages."""
    steps: dict[str, Step] = {}
    x = torch.ones(1, requires_grad=True)
    for name in ("sgd", "sam", "sam, synchronised", "sam, stable"):
        waiting = Waiting(options["layers"], options["numbers"], options["seconds"])
        model = DistributedDataParallel(waiting, bucket_cap_mb=options["cap"] / 2**20)
        made = stepper(model, name, lambda model=model: model(x))
        for which, link in enumerate(options["links"]):

            def step(made: Step = made, link: Any = link) -> None:
                group.mute = link is None
                if link is not None:
                    *numbers, n = link
                    group.hold = lambda message: Link(*numbers).seconds(message, n)
                made()
                group.hold, group.mute = None, False

            steps[f"{name}/{which}"] = step
    return {"seconds": median_seconds(steps, options["turns"])}


def train_all(group: WatchedGroup, options: dict[str, Any]) -> dict[str, Any]:
    """Train for one epoch by ``surefoot train``, and return the messages of the steps."""
    import surefoot as sf
    from surefoot.training.session import Session

    steps: list[list[Message]] = []
    advance = Session.advance

    def noted(self: Session, *args: Any) -> tuple[float, bool]:
        group.messages.clear()
        found = advance(self, *args)
        steps.append([*group.messages])
        return found

    Session.advance = noted  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        sf.train(out=Path(dist_told(folder), "run"), epochs=1, **options)
    return {"messages": [[message.kind, message.n_bytes] for message in steps[2]]}


def dist_told(folder: str) -> str:
    """Return the first rank's folder."""
    box = [folder]
    dist.broadcast_object_list(box, src=0)
    return box[0]


PARTS = {"count": count_all, "time": time_all, "delay": delay_all, "train": train_all}


def main() -> None:
    """Do one part and write what was found."""
    part, folder, options = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of torch, about names that it is about to change
    group = start()
    torch.manual_seed(dist.get_rank())
    found = PARTS[part](group, options)
    (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
