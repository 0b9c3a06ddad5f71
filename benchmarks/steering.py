"""Where the controller's signal and gains come from, and what it costs that held-out rows steer.

noise      how far log T and the confidence gap stand out of their noise, on 500, 2,000 and 10,000 held-out rows
response   what ρ and γ do to log T of held-out rows: networks whose knobs are turned once, at a third of the way
closed     the controller on the networks that its gains, limits and restraint were chosen on, beside fixed settings
second     a temperature fitted on the rows that steered, beside one fitted on rows that did not: NLL and ECE elsewhere

None of these networks is one that the study c1 judges. ``--data`` is a folder with cifar10.npz and
text/sst5_*.jsonl.gz; what is not there is left out.

    python benchmarks/steering.py response --data DATA --tasks fashion
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot import KeepCalibrated
from surefoot.assembly import assemble, horizon_of, splits_of
from surefoot.batches import nth_batch
from surefoot.errors import InputError
from surefoot.losses import Batch
from surefoot.metrics import ece, nll
from surefoot.optim import Parts, Wrapper
from surefoot.schema import Split, Splits
from surefoot.seeding import generator, seed_everything
from surefoot.steering import Signal, signal_of
from surefoot.studies.compare import make_spec
from surefoot.training import predict

TANH = "mlp:width=96,activation=tanh"
TEXT = {"model": "text_transformer:vocabulary=2000", "base": "adamw"}
TASKS: dict[str, dict[str, Any]] = {
    "fashion": {"data": "fashion", "model": TANH, "epochs": 30, "batch_size": 64},
    "noisy": {"data": "noisy:fashion,rate=0.3,seed=7", "model": TANH, "epochs": 30, "batch_size": 64},
    "pictures": {"data": "cifar10:n_train=5000,n_test=4000", "model": "mlp", "epochs": 30},
    "convolutions": {"data": "fashion", "model": "cnn:width=8", "epochs": 20},
    "texts": {"data": "text:text/sst5,vocabulary=2000,length=24,n_train=3000", "epochs": 10, **TEXT},
    "few": {"data": "digits", "model": "cnn:width=8", "epochs": 30},
}
Look = Callable[[int, Wrapper, torch.Tensor, torch.Tensor], None]


@dataclasses.dataclass
class Trained:
    """A finished network: what was seen after each epoch, and its logits."""

    seen: list[Signal]
    splits: Splits
    logits: dict[str, torch.Tensor]

    def on(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits and labels of a split."""
        split: Split = self.splits[name]  # type: ignore[index]
        return self.logits[name].double(), split.labels


def train(task: str, method: str, seed: int, look: Look | None = None) -> Trained:
    """Train, and look at the calibration split after each epoch."""
    settings = dict(TASKS[task])
    base = settings.pop("base", "sgd")
    text = base if method == "base" else f"{method}{',' if ':' in method else ':'}base={base}"
    spec = make_spec(text, seed=seed, **settings)
    splits = splits_of(spec)
    trainee, length = assemble(spec, splits), horizon_of(spec, splits)
    seed_everything(seed, "train")
    seen = []
    for step in range(length.n_steps):
        epoch, position = divmod(step, length.steps_per_epoch)
        order = torch.randperm(len(splits.train), generator=generator(seed, f"order/{epoch}"))
        rows = order[nth_batch(position, len(order), length.steps_per_epoch)]
        batch = Batch(splits.train.inputs[rows], splits.train.labels[rows], rows)

        def losses(part: Any, batch: Batch = batch) -> Any:
            return trainee.loss.evaluate(trainee.model, batch[part])[0]

        trainee.model.train()
        trainee.optimizer.step(Parts(losses, n=len(rows)))
        trainee.schedule.step()
        if position == length.steps_per_epoch - 1:
            held_out = predict(trainee.model, splits.calibration)
            seen.append(signal_of(held_out, splits.calibration.labels))
            if look is not None:
                look(epoch + 1, trainee.optimizer, held_out, splits.calibration.labels)
    logits = {name: predict(trainee.model, splits[name]) for name in ("calibration", "test")}  # type: ignore[index]
    return Trained(seen, splits, logits)


def turned(epoch: int, *, rho: float | None = None, gamma: float | None = None) -> Look:
    """Turn a knob once."""

    def look(done: int, optimizer: Wrapper, logits: torch.Tensor, labels: torch.Tensor) -> None:
        if done == epoch:
            for group in optimizer.param_groups if rho is not None else ():
                group["rho"] = rho
            if gamma is not None:
                optimizer.outer.gamma = gamma  # type: ignore[attr-defined]

    return look


def steered() -> Look:
    """Steer as KeepCalibrated does."""
    keepers: list[KeepCalibrated] = []

    def look(done: int, optimizer: Wrapper, logits: torch.Tensor, labels: torch.Tensor) -> None:
        if not keepers:
            keepers.append(KeepCalibrated(optimizer))
        keepers[0].step(logits, labels)

    return look


def scores(logits: torch.Tensor, labels: torch.Tensor) -> str:
    """Write accuracy, ECE and NLL as cells of a table."""
    probs = logits.double().softmax(1)
    right = (probs.argmax(1) == labels).double().mean()
    return f"{100 * right:.1f} | {100 * ece(probs, labels):.2f} | {nll(probs, labels):.3f}"


def noise(tasks: list[str], seeds: list[int]) -> None:
    """Print signals in units of their standard errors, over draws of rows from the networks' test splits."""
    print("| network | rows | log T | its error | log T / error | gap | its error | gap / error |\n|" + "---|" * 8)
    for task in tasks:
        trained = train(task, "csam", seeds[0])
        logits, labels = (torch.cat(pair) for pair in zip(trained.on("calibration"), trained.on("test"), strict=True))
        for n in (500, 2000, 10_000):
            if n > 2 * len(labels):
                continue
            draws = torch.Generator().manual_seed(0)
            picks = [torch.randint(len(labels), (n,), generator=draws) for _ in range(100)]
            found = [signal_of(logits[rows], labels[rows]) for rows in picks]
            t, g = np.array([each.log_temperature for each in found]), np.array([each.gap for each in found])
            cells = [f"{v.mean():.3f} | {v.std():.3f} | {abs(v.mean()) / v.std():.1f}" for v in (t, g)]
            print(f"| {task} | {n:,} | {cells[0]} | {cells[1]} |")


def response(tasks: list[str], seeds: list[int]) -> None:
    """Print what turning a knob does, and how soon."""
    knobs = {"ρ 0.05": {"rho": 0.05}, "ρ 0.2": {"rho": 0.2}, "ρ 0.4": {"rho": 0.4}, "ρ 0.8": {"rho": 0.8}}
    knobs |= {"γ 0": {"gamma": 0.0}, "γ 2": {"gamma": 2.0}, "γ 4": {"gamma": 4.0}, "γ 8": {"gamma": 8.0}}
    print("| network | from ρ 0.1, γ 1 to | Δ log T after 1 epoch | at the end | Δ NLL after T, test | Δ accuracy |")
    print("|" + "---|" * 6)
    for task in tasks:
        at = TASKS[task]["epochs"] // 3
        same = [train(task, "csam", seed) for seed in seeds]
        for name, knob in knobs.items():
            other = [train(task, "csam", seed, turned(at, **knob)) for seed in seeds]
            moves = np.array([
                [b.log_temperature - a.log_temperature for a, b in zip(one.seen, two.seen, strict=True)]
                for one, two in zip(same, other, strict=True)
            ]).mean(0)
            refined = [np.mean([signal_of(*each.on("test")).refined for each in some]) for some in (same, other)]
            right = [np.mean([_right(each) for each in some]) for some in (same, other)]
            cells = f"{moves[at]:+.2f} | {moves[-1]:+.2f} | {refined[1] - refined[0]:+.3f}"
            print(f"| {task} | {name} | {cells} | {100 * (right[1] - right[0]):+.1f} |", flush=True)


def _right(trained: Trained) -> float:
    logits, labels = trained.on("test")
    return float((logits.argmax(1) == labels).double().mean())


def closed(tasks: list[str], seeds: list[int]) -> None:
    """Print the controller beside fixed settings."""
    methods: dict[str, tuple[str, Callable[[], Look] | None]] = {
        "base": ("base", None),
        "csam": ("csam", None),
        "base auto": ("base", steered),
        "csam auto": ("csam", steered),
        "csam auto, every 4th": ("csam:every=4", steered),
    }
    print("| network | method | seed | accuracy | ECE % | NLL | log T |\n|" + "---|" * 7)
    for task in tasks:
        for name, (method, look) in methods.items():
            for seed in seeds:
                found = train(task, method, seed, look() if look else None)
                seen = signal_of(*found.on("test"))
                print(
                    f"| {task} | {name} | {seed} | {scores(*found.on('test'))} | {seen.log_temperature:+.2f} |",
                    flush=True,
                )


def second(tasks: list[str], seeds: list[int]) -> None:
    """Print NLL and ECE on half of the test rows, behind temperatures fitted elsewhere."""
    print("| network | method | temperature fitted on | its log T | NLL | ECE % |\n|" + "---|" * 6)
    for task in tasks:
        for name, method, look in (("csam", "csam", None), ("csam auto", "csam", steered)):
            found = [train(task, method, seed, look() if look else None) for seed in seeds]
            for where in ("no rows", "calibration rows", "as many fresh rows"):
                rows = np.array([_behind(each, where) for each in found]).mean(0)
                print(
                    f"| {task} | {name} | {where} | {rows[0]:+.3f} | {rows[1]:.4f} | {100 * rows[2]:.2f} |", flush=True
                )


def _behind(trained: Trained, where: str) -> tuple[float, float, float]:
    steering, (logits, labels) = trained.on("calibration"), trained.on("test")
    half = len(labels) // 2
    n = min(half, len(steering[1]))
    fitted = {
        "calibration rows": (steering[0][:n], steering[1][:n]),
        "as many fresh rows": (logits[:n], labels[:n]),
    }
    log_t = signal_of(*fitted[where]).log_temperature if where in fitted else 0.0
    probs = (logits[half:] / math.exp(log_t)).softmax(1)
    return log_t, float(nll(probs, labels[half:])), float(ece(probs, labels[half:]))


def main() -> None:
    """Run one of the four."""
    parts = {"noise": noise, "response": response, "closed": closed, "second": second}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", type=Path, help="Folder with cifar10.npz and text/; else only what is embedded.")
    parser.add_argument("--tasks", default=",".join(TASKS), help="Names, separated by commas.")
    parser.add_argument("--seeds", default="100,101", help="Numbers, separated by commas.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.data is not None:
        os.environ["SUREFOOT_DATA"] = str(given.data)
    tasks = [name for name in given.tasks.split(",") if _is_here(name)]
    parts[given.part](tasks, [int(seed) for seed in given.seeds.split(",")])


def _is_here(task: str) -> bool:
    try:
        splits_of(make_spec("sgd", data=TASKS[task]["data"]))
    except InputError as error:
        print(f"{task} is left out: {error}")
        return False
    return True


if __name__ == "__main__":
    main()
