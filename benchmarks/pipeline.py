"""What augmentation adds to a training step: ResNet-20 on images of 3×32×32, batches of 128.

Both contestants form batches as the training loop does (rows by a random order, one generator per step) and step plain
SGD. They take turns in one process, a few steps each per turn, so that a noisy machine disturbs both alike; beside
them, forming the batch is timed alone. With ``--layout`` the network's memory layout is compared instead.

    python benchmarks/pipeline.py                              # two threads, crop + flip + cutout
    python benchmarks/pipeline.py --augment standard --threads 1
    python benchmarks/pipeline.py --layout

Prints JSON; the aim is a share of at most 0.10.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from surefoot.data.augment import Augment, build_augment
from surefoot.method import parse_method, read_augment
from surefoot.models import build_model
from surefoot.optim import build_optimizer
from surefoot.registry import MODELS
from surefoot.schema import LossTerms, Scaling, Split, Splits
from surefoot.seeding import generator, seed_everything

N_IMAGES = 5000
Step = Callable[[int], float]


def made_splits() -> Splits:
    """Make images of noise: what they show does not change how long a step takes."""
    draw = generator(0, "images")
    inputs = torch.randn(N_IMAGES, 3, 32, 32, generator=draw)
    split = Split(inputs, torch.randint(10, (N_IMAGES,), generator=draw))
    names = tuple(map(str, range(10)))
    return Splits(split, split, split, names, "made", Scaling((125.0, 123.0, 114.0), (63.0, 62.0, 67.0)))


def batches(splits: Splits, augment: Augment | None, batch_size: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return a function that forms the batch of a step, as the loop does."""
    order = torch.randperm(N_IMAGES, generator=generator(0, "order/0"))

    def form(step: int) -> tuple[Tensor, Tensor]:
        start = step * batch_size % (N_IMAGES - batch_size)
        rows = order[start : start + batch_size]
        inputs = splits.train.inputs[rows]
        if augment is not None:
            inputs = augment(inputs, generator(0, f"augment/{step}"))
        return inputs, splits.train.labels[rows]

    return form


def training(splits: Splits, augment: Augment | None, batch_size: int, layout: torch.memory_format) -> Step:
    """Return a function that makes one step and says how many seconds it took."""
    seed_everything(0)
    model = build_model(MODELS.parse("resnet20"), splits).to(memory_format=layout)
    optimizer = build_optimizer(parse_method("sgd"), model)
    form = batches(splits, augment, batch_size)

    def step(number: int) -> float:
        start = time.perf_counter()
        inputs, labels = form(number)
        inputs = inputs.contiguous(memory_format=layout)
        optimizer.step(lambda: LossTerms(F.cross_entropy(model(inputs), labels, reduction="none")))
        return time.perf_counter() - start

    return step


def forming(splits: Splits, augment: Augment | None, batch_size: int) -> Step:
    """Return a function that forms one batch and says how many seconds it took."""
    form = batches(splits, augment, batch_size)

    def step(number: int) -> float:
        start = time.perf_counter()
        form(number)
        return time.perf_counter() - start

    return step


def contest(contestants: dict[str, Step], rounds: int, per_round: int) -> dict[str, float]:
    """Let all take turns; give each one's median milliseconds per step, the first of each turn left out."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, step in contestants.items():
            taken = [step(turn * per_round + k) for k in range(per_round)]
            if turn:
                seconds[name] += taken[1:]
    return {name: round(1000 * statistics.median(taken), 3) for name, taken in seconds.items()}


def augmentation_share(milliseconds: dict[str, float]) -> float:
    """Return the part of an augmented step that augmentation takes, from the batches, which are timed more exactly."""
    return (milliseconds["batch, augmented"] - milliseconds["batch"]) / milliseconds["step, augmented"]


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--augment", default="crop + flip + cutout")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--layout", action="store_true", help="compare channels-last with the usual layout")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    splits = made_splits()
    augment = build_augment(read_augment(given.augment), splits)
    plain, last = torch.contiguous_format, torch.channels_last
    if given.layout:
        contestants = {
            "step, channels first": training(splits, augment, given.batch_size, plain),
            "step, channels last": training(splits, augment, given.batch_size, last),
        }
    else:
        contestants = {
            "step": training(splits, None, given.batch_size, plain),
            "step, augmented": training(splits, augment, given.batch_size, plain),
            "batch": forming(splits, None, given.batch_size),
            "batch, augmented": forming(splits, augment, given.batch_size),
        }
    found = contest(contestants, given.rounds, 4)
    share = {} if given.layout else {"share of the step": round(augmentation_share(found), 4)}
    about = {"threads": given.threads, "batch size": given.batch_size, "augment": given.augment}
    machine = {"torch": torch.__version__, "machine": platform.machine(), "system": platform.system()}
    print(json.dumps({**about, **machine, "milliseconds, median": found, **share}, indent=2))


if __name__ == "__main__":
    main()
