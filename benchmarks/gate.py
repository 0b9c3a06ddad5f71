"""How often ``surefoot check --baseline`` breaks: for an equally good model, which it should not, and for a worse one.

Each of two models sees the class through noise of its own, ``simulated.py`` says how: softmax(a · x) is calibrated, and
a decides the accuracy. A worse one is less accurate, or is too sure by a factor s.

    python benchmarks/gate.py                   # the table of docs/check.md, some minutes
    python benchmarks/gate.py --repetitions 20  # quickly
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
from simulated import signal
from torch import Tensor

from surefoot.auditing import Baseline, check
from surefoot.schema import Predictions

CLASSES = 10
SHARED = 0.7  # of the noise, which makes the same examples hard for both


class Model(NamedTuple):
    """What the new model is like; the baseline is 85 % right and calibrated."""

    name: str
    accuracy: float
    sharpen: float


MODELS = (
    Model("as good", 0.85, 1.0),
    Model("1 point less accurate", 0.84, 1.0),
    Model("3 points less accurate", 0.82, 1.0),
    Model("too sure, s = 1.2", 0.85, 1.2),
    Model("too sure, s = 1.5", 0.85, 1.5),
)


def draw(n: int, a: float, b: float, sharpen: float, source: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw labels, and logits of the baseline and of the new model for them."""
    labels = torch.randint(CLASSES, (n,), generator=source)
    hot = torch.nn.functional.one_hot(labels, CLASSES).double()
    common, one, other = (torch.randn(n, CLASSES, generator=source, dtype=torch.float64) for _ in range(3))
    rest = math.sqrt(1 - SHARED**2)
    return (
        a * (a * hot + SHARED * common + rest * one),
        sharpen * b * (b * hot + SHARED * common + rest * other),
        labels,
    )


def predictions(logits: Tensor, labels: Tensor) -> Predictions:
    """Make predictions of a test split."""
    return Predictions(logits.numpy(), labels.numpy(), "test")


def rates(n: int, model: Model, paired: bool, repetitions: int) -> tuple[float, dict[str, float]]:
    """Count how often the gate breaks, and which of its checks do."""
    source = torch.Generator().manual_seed(n)
    noise = torch.randn(40_000, CLASSES, generator=source, dtype=torch.float64)
    a, b = signal(0.85, noise), signal(model.accuracy, noise)
    broken, each = 0, dict.fromkeys(("accuracy", "ece", "nll"), 0)
    for _ in range(repetitions):
        old, new, labels = draw(n, a, b, model.sharpen, source)
        base: Baseline = check(predictions(old, labels)).kept
        if not paired:
            _, new, labels = draw(n, a, b, model.sharpen, source)
        gate = check(predictions(new, labels), baseline=base)
        broken += gate.broken
        for found in gate.checks:
            each[found.metric] += found.status == "broken"
    return broken / repetitions, {name: count / repetitions for name, count in each.items()}


def rows(models: tuple[Model, ...], sizes: list[int], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Make the table."""
    yield ("the new model is", "rows", "examples", "gate broken", "by accuracy", "by ECE", "by NLL")
    for model in models:
        for n in sizes:
            for paired in (True, False):
                share, each = rates(n, model, paired, repetitions)
                shown = (f"{100 * value:.1f} %" for value in (share, *each.values()))
                yield (model.name, f"{n:,}", "the same" if paired else "others", *shown)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400, help="per line (default 400)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 10_000])
    parser.add_argument("--only", nargs="+", choices=[model.name for model in MODELS], help="these models")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    models = tuple(model for model in MODELS if chosen.only is None or model.name in chosen.only)
    for number, row in enumerate(rows(models, chosen.sizes, chosen.repetitions)):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print(f"|{'---|' * len(row)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
