"""Simulated predictions whose true accuracy, calibration and losses are known.

A class is drawn, and K numbers x around its unit vector, a · e_y + noise. ``softmax(a · x)`` is then exactly the
probability of each class, so these predictions are calibrated, with an accuracy that a decides. ``softmax(s · a · x)``
is over-confident for s > 1 and under-confident for s < 1. Rows come from a pool, and labels are drawn anew for each of
them, so that the truth is a plain sum over the pool, without an error of its own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.metrics import bin_index


class Cell(NamedTuple):
    """Predictions of one kind."""

    n: int
    classes: int
    accuracy: float
    sharpen: float


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
        """Draw predictions, and a label for each."""
        rows, labels = self.rows(n, source)
        return [probs[rows] for probs in self.predictions], labels

    def rows(self, n: int, source: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw rows, and a label for each."""
        rows = torch.randint(len(self.truth), (n,), generator=source)
        steps = self.steps[rows]
        at = torch.rand(n, 1, generator=source, dtype=torch.float64) * steps[:, -1:]
        return rows, torch.searchsorted(steps, at).squeeze(1).clamp(max=steps.shape[1] - 1)

    def value(self, name: str, which: int = 0) -> float:
        """Return a metric's true value."""
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


def ece_of(truth: Tensor, probs: Tensor) -> float:
    """Return the true ECE of predictions in 15 bins."""
    confidence, right = _top(truth, probs)
    return torch.bincount(bin_index(confidence, 15), confidence - right, 15).abs().sum().item() / len(probs)


def _area(truth: Tensor, probs: Tensor) -> float:
    confidence, right = _top(truth, probs)
    _, order = confidence.unique(return_inverse=True)
    hits, misses = torch.bincount(order, right), torch.bincount(order, 1 - right)
    below = misses.cumsum(0) - misses / 2
    return (hits @ below / hits.sum() / misses.sum()).item()


def _risk(truth: Tensor, probs: Tensor) -> float:
    confidence, right = _top(truth, probs)
    wrong = 1 - right[confidence.argsort(descending=True)]
    return (wrong.cumsum(0) / torch.arange(1, len(wrong) + 1)).mean().item()


def _entropy_of_truth(truth: Tensor, probs: Tensor) -> float:
    binary = -torch.xlogy(probs, probs) - torch.xlogy(1 - probs, 1 - probs)
    return (truth * binary).sum(1).mean().item()


TRUTHS: dict[str, Callable[[Tensor, Tensor], float]] = {
    "accuracy": lambda truth, probs: _top(truth, probs)[1].mean().item(),
    "confidence_gap": _gap,
    "ece": ece_of,
    "nll": lambda truth, probs: -torch.xlogy(truth, probs).sum(1).mean().item(),
    "brier": lambda truth, probs: (probs.square().sum(1) + 1 - 2 * (truth * probs).sum(1)).mean().item(),
    "misclassification_auroc": _area,
    "aurc": _risk,
    "entropy": lambda truth, probs: -torch.xlogy(probs, probs).sum(1).mean().item(),
    "true_class_entropy": _entropy_of_truth,
}


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
