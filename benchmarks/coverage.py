"""How often 95 % intervals hold the truth, by simulation.

A class is drawn, and K numbers x around its unit vector, a · e_y + noise. ``softmax(a · x)`` is then exactly the
probability of each class, so these predictions are calibrated, with an accuracy that a decides. ``softmax(s · a · x)``
is over-confident for s > 1 and under-confident for s < 1. Rows come from a pool, and labels are drawn anew for each of
them, so that the truth is a plain sum over the pool, without an error of its own.

    python benchmarks/coverage.py                     # the tables of docs/metrics.md, about half an hour
    python benchmarks/coverage.py --quick             # 60 repetitions, fewer cells
    python benchmarks/coverage.py --only headline     # which tables
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.audit.better import Pair, better_calibrated
from surefoot.metrics import Stream, bin_index
from surefoot.metrics.bootstrap import bootstrap, paired_bootstrap
from surefoot.metrics.chance import chance
from surefoot.metrics.interval import Interval
from surefoot.metrics.verdict import verdict_of_sums


class Cell(NamedTuple):
    """Predictions of one kind."""

    n: int
    classes: int
    accuracy: float
    sharpen: float


CELLS = (
    Cell(200, 2, 0.6, 1.0),
    Cell(200, 2, 0.96, 1.0),
    Cell(1000, 2, 0.96, 1.3),
    Cell(1000, 2, 0.99, 0.8),
    Cell(200, 10, 0.85, 1.0),
    Cell(200, 10, 0.85, 0.7),
    Cell(1000, 10, 0.85, 1.1),
    Cell(1000, 10, 0.85, 1.5),
    Cell(10_000, 10, 0.85, 1.0),
    Cell(10_000, 10, 0.85, 1.1),
    Cell(200, 10, 0.995, 1.2),
    Cell(1000, 10, 0.995, 1.0),
    Cell(4000, 10, 0.995, 1.2),
    Cell(200, 10, 0.999, 1.0),
    Cell(10_000, 10, 0.999, 1.3),
    Cell(200, 100, 0.93, 1.0),
    Cell(2000, 100, 0.93, 1.1),
    Cell(1000, 100, 0.5, 0.9),
    Cell(1000, 1000, 0.75, 1.0),
    Cell(1000, 1000, 0.75, 1.2),
)
QUICK = (CELLS[1], CELLS[6], CELLS[10], CELLS[15])
SINGLE = ("accuracy", "confidence_gap", "ece", "nll", "brier", "misclassification_auroc")
PAIRED = ("accuracy", "confidence_gap", "ece", "nll", "brier")
ERRORS = ("ece", "debiased_ece", "smooth_ece", "classwise_ece")


@dataclass
class Population:
    """Rows with the probabilities of their labels, and one prediction or several."""

    truth: Tensor
    predictions: list[Tensor]
    steps: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Prepare to draw labels."""
        self.steps = self.truth.cumsum(1)

    def draw(self, n: int, source: torch.Generator) -> tuple[list[Tensor], Tensor]:
        """Draw rows, and a label for each."""
        rows = torch.randint(len(self.truth), (n,), generator=source)
        steps = self.steps[rows]
        at = torch.rand(n, 1, generator=source, dtype=torch.float64) * steps[:, -1:]
        labels = torch.searchsorted(steps, at).squeeze(1).clamp(max=steps.shape[1] - 1)
        return [probs[rows] for probs in self.predictions], labels

    def value(self, name: str, which: int = 0) -> float:
        """Give a metric's true value."""
        return TRUTHS[name](self.truth, self.predictions[which])


def signal(accuracy: float, pool: Tensor) -> float:
    """Find the a that gives an accuracy."""
    low, high = 0.0, 30.0
    for _ in range(40):
        a = (low + high) / 2
        right = (a * (pool + a * _first(pool))).softmax(1).amax(1).mean().item()
        low, high = (a, high) if right < accuracy else (low, a)
    return (low + high) / 2


def _first(pool: Tensor) -> Tensor:
    hot = torch.zeros_like(pool)
    hot[:, 0] = 1.0
    return hot


def population(cell: Cell, *, others: Sequence[tuple[float, float]] = ()) -> Population:
    """Make a pool of predictions, and of other models' that see less of the same rows.

    Args:
        cell: Accuracy and sharpness of the first.
        others: Accuracy and sharpness of each other one; its accuracy is below the first's, or the same model's.

    Returns:
        The pool; labels follow the first model's calibrated probabilities.
    """
    size = max(2000, min(40_000, 4_000_000 // cell.classes))
    source = torch.Generator().manual_seed(zlib.crc32(repr(cell[1:3]).encode()))
    noise = torch.randn(size, cell.classes, generator=source, dtype=torch.float64)
    a = signal(cell.accuracy, noise)
    logits = a * (noise + a * _first(noise))
    predictions = [(cell.sharpen * logits).softmax(1)]
    for accuracy, sharpen in others:
        if accuracy == cell.accuracy:
            predictions.append((sharpen * logits).softmax(1))
            continue
        # The same x with more noise: what is known of the class by one who sees only that.
        b = signal(accuracy, noise)
        more = torch.randn(size, cell.classes, generator=source, dtype=torch.float64) * math.sqrt(a * a / b / b - 1)
        seen = (noise + a * _first(noise) + more) * (b * b / a)
        predictions.append((sharpen * seen).softmax(1))
    return Population(logits.softmax(1), predictions)


def _top(truth: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    confidence, label = probs.max(1)
    return confidence, truth.gather(1, label[:, None]).squeeze(1)


def _gap(truth: Tensor, probs: Tensor) -> float:
    confidence, right = _top(truth, probs)
    return (confidence - right).mean().item()


def _ece(truth: Tensor, probs: Tensor) -> float:
    confidence, right = _top(truth, probs)
    return torch.bincount(bin_index(confidence, 15), confidence - right, 15).abs().sum().item() / len(probs)


def _area(truth: Tensor, probs: Tensor) -> float:
    confidence, right = _top(truth, probs)
    _, order = confidence.unique(return_inverse=True)
    hits, misses = torch.bincount(order, right), torch.bincount(order, 1 - right)
    below = misses.cumsum(0) - misses / 2
    return (hits @ below / hits.sum() / misses.sum()).item()


TRUTHS: dict[str, Callable[[Tensor, Tensor], float]] = {
    "accuracy": lambda truth, probs: _top(truth, probs)[1].mean().item(),
    "confidence_gap": _gap,
    "ece": _ece,
    "nll": lambda truth, probs: -torch.xlogy(truth, probs).sum(1).mean().item(),
    "brier": lambda truth, probs: (probs.square().sum(1) + 1 - 2 * (truth * probs).sum(1)).mean().item(),
    "misclassification_auroc": _area,
}


@dataclass
class Held:
    """How many intervals were given, and how many of them held the truth."""

    asked: int = 0
    given: int = 0
    held: int = 0
    without: int = 0  # that do not hold their own estimate

    def add(self, interval: Interval, truth: float) -> None:
        """Count one."""
        self.asked += 1
        if interval.known:
            self.given += 1
            self.held += interval.low - 1e-9 <= truth <= interval.high + 1e-9
            self.without += not interval.low <= interval.estimate <= interval.high

    def __str__(self) -> str:
        """Write the share of those given, and how often one was, where that is not always."""
        if not self.given:
            return "none given"
        share = f"{100 * self.held / self.given:.0f} %"
        often = "" if self.given == self.asked else f" of {100 * self.given / self.asked:.0f} %"
        return share + often + (f", {self.without} without estimate" if self.without else "")


def single(cells: Sequence[Cell], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure coverage of each metric alone."""
    yield ("n", "K", "accuracy", "s", *SINGLE)
    for cell in cells:
        pool, source = population(cell), torch.Generator().manual_seed(1)
        truths, found = {name: pool.value(name) for name in SINGLE}, {name: Held() for name in SINGLE}
        for _ in range(repetitions):
            (probs,), labels = pool.draw(cell.n, source)
            for name in SINGLE:
                found[name].add(bootstrap(name, probs, labels), truths[name])
        yield (*_of(cell), *(str(found[name]) for name in SINGLE))


PAIRS = (
    (Cell(200, 10, 0.95, 1.0), (0.59, 1.0)),
    (Cell(1000, 10, 0.95, 1.0), (0.59, 1.0)),
    (Cell(1000, 10, 0.85, 1.5), (0.85, 1.0)),
    (Cell(1000, 10, 0.85, 1.5), (0.85, 0.7)),
    (Cell(1000, 10, 0.85, 1.2), (0.8, 1.0)),
    (Cell(4000, 10, 0.85, 1.2), (0.8, 1.1)),
    (Cell(200, 2, 0.96, 1.3), (0.9, 1.0)),
    (Cell(1000, 2, 0.96, 1.3), (0.9, 1.0)),
    (Cell(200, 10, 0.995, 1.2), (0.99, 1.0)),
    (Cell(4000, 10, 0.999, 1.3), (0.995, 1.0)),
    (Cell(500, 100, 0.93, 1.1), (0.8, 1.0)),
    (Cell(1000, 1000, 0.75, 1.1), (0.6, 1.0)),
)


def paired(pairs: Sequence[tuple[Cell, tuple[float, float]]], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure coverage of differences between two predictions of the same rows."""
    yield ("n", "K", "accuracy of A, B", "s of A, B", *(f"{name}, A − B" for name in PAIRED))
    for cell, other in pairs:
        pool, source = population(cell, others=[other]), torch.Generator().manual_seed(2)
        truths = {name: pool.value(name) - pool.value(name, 1) for name in PAIRED}
        found = {name: Held() for name in PAIRED}
        for _ in range(repetitions):
            (a, b), labels = pool.draw(cell.n, source)
            for name in PAIRED:
                found[name].add(paired_bootstrap(name, a, b, labels), truths[name])
        about = (
            f"{cell.n:,}",
            f"{cell.classes:,}",
            f"{cell.accuracy:g}, {other[0]:g}",
            f"{cell.sharpen:g}, {other[1]:g}",
        )
        yield (*about, *(str(found[name]) for name in PAIRED))


HEADLINES = (
    (Cell(200, 10, 0.95, 1.0), (0.59, 1.0)),
    (Cell(1000, 10, 0.95, 1.0), (0.59, 1.0)),
    (Cell(4000, 10, 0.95, 1.0), (0.59, 1.0)),
    (Cell(1000, 2, 0.96, 1.0), (0.75, 1.0)),
    (Cell(1000, 10, 0.999, 1.0), (0.85, 1.0)),
    (Cell(1000, 100, 0.93, 1.0), (0.5, 1.0)),
    (Cell(1000, 10, 0.85, 1.0), (0.84, 1.0)),
    (Cell(1000, 10, 0.85, 1.2), (0.84, 1.0)),
    (Cell(1000, 10, 0.85, 1.5), (0.84, 1.0)),
    (Cell(4000, 10, 0.85, 1.2), (0.84, 1.0)),
    (Cell(1000, 10, 0.95, 1.5), (0.59, 1.0)),
    (Cell(4000, 10, 0.95, 1.5), (0.59, 1.0)),
    (Cell(1000, 10, 0.95, 0.7), (0.59, 1.0)),
    (Cell(1000, 10, 0.85, 1.5), (0.85, 0.6)),
)


def headlines(pairs: Sequence[tuple[Cell, tuple[float, float]]], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure how often ``surefoot audit A B`` calls one of them better calibrated."""
    yield ("n", "K", "accuracy of A, B", "s of A, B", "A is better", "B is better", "cannot be told")
    for cell, other in pairs:
        source, said = torch.Generator().manual_seed(4), {"A": 0, "B": 0, "": 0}
        noise = torch.randn(max(2000, 400_000 // cell.classes), cell.classes, generator=source, dtype=torch.float64)
        signals = signal(cell.accuracy, noise), signal(other[0], noise)
        for _ in range(repetitions):
            a, b, labels = fresh(cell, other, signals, source)
            bins = _bins(a, labels), _bins(b, labels)
            found = better_calibrated(*map(verdict_of_sums, bins), bins, Pair((a, b), labels), 1.0)
            said[found.letter if found else ""] += 1
        yield (*_of_pair(cell, other), *(f"{100 * count / repetitions:.1f} %" for count in said.values()))


def fresh(
    cell: Cell, other: tuple[float, float], signals: tuple[float, float], source: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw examples of class 0 as two models see them, the second one through more noise.

    Not from a pool: where labels are all but certain, one who sees less of a pool's rows is calibrated only nearly.
    """
    a, b = signals
    seen = torch.randn(cell.n, cell.classes, generator=source, dtype=torch.float64)
    seen[:, 0] += a
    more = torch.randn(seen.shape, generator=source, dtype=torch.float64) * math.sqrt(max(0.0, a * a / b / b - 1))
    first, second = cell.sharpen * a * seen, other[1] * b * b / a * (seen + more)
    return first.softmax(1), second.softmax(1), torch.zeros(cell.n, dtype=torch.int64)


def _bins(probs: Tensor, labels: Tensor) -> Tensor:
    stream = Stream("ece")
    stream.update(probs, labels)
    return stream.sums


def limits(cells: Sequence[Cell], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure how often errors of calibrated predictions stay below chance's limit, and no fault is found."""
    yield ("n", "K", "accuracy", *(f"{name} below its limit" for name in ERRORS), "verdict: calibrated")
    for cell in (each for each in cells if each.sharpen == 1 and each.n <= 1000):
        pool, source = population(cell), torch.Generator().manual_seed(3)
        below, right = dict.fromkeys(ERRORS, 0), 0
        few = max(20, repetitions // 3)
        for _ in range(few):
            (probs,), labels = pool.draw(cell.n, source)
            for name in ERRORS:
                drawn = chance(name, probs, labels, n_resamples=100)
                below[name] += drawn.estimate <= drawn.limit
            right += verdict_of_sums(_bins(probs, labels)).finding == "calibrated"
        shares = (f"{100 * count / few:.0f} %" for count in (*below.values(), right))
        yield (*_of(cell)[:3], *shares)


def _of(cell: Cell) -> tuple[str, str, str, str]:
    return f"{cell.n:,}", f"{cell.classes:,}", f"{cell.accuracy:g}", f"{cell.sharpen:g}"


def _of_pair(cell: Cell, other: tuple[float, float]) -> tuple[str, str, str, str]:
    both = (f"{one:g}, {two:g}" for one, two in zip((cell.accuracy, cell.sharpen), other, strict=True))
    return f"{cell.n:,}", f"{cell.classes:,}", *both


def show(title: str, rows: Iterator[tuple[str, ...]]) -> None:
    """Print a table in Markdown, each row as soon as it is known."""
    print(f"\n{title}\n")
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print(f"|{'---|' * len(row)}", flush=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300, help="per cell (default 300)")
    parser.add_argument("--quick", action="store_true", help="60 repetitions and a few cells")
    parser.add_argument("--only", nargs="+", choices=("single", "paired", "limits", "headline"), help="these tables")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    times = 60 if chosen.quick else chosen.repetitions
    cells, pairs, heads = (QUICK, PAIRS[:2], HEADLINES[:2]) if chosen.quick else (CELLS, PAIRS, HEADLINES)
    tables: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
        "single": lambda: single(cells, times),
        "paired": lambda: paired(pairs, times),
        "headline": lambda: headlines(heads, times),
        "limits": lambda: limits(cells, times),
    }
    for name, rows in tables.items():
        if chosen.only is None or name in chosen.only:
            show(name, rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
