"""Predictions to make sets of, and sets made slowly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from surefoot.prediction_sets._draws import draws_of
from surefoot.schema import Predictions


def drawn(n: int, classes: int = 5, *, seed: int = 0, sharp: float = 2.0, off: float = 1.0) -> Predictions:
    """Logits and labels drawn from their softmax; ``off`` divides the logits afterwards."""
    rng = np.random.default_rng(seed)
    logits = sharp * rng.standard_normal((n, classes))
    labels = (logits + rng.gumbel(size=(n, classes))).argmax(1)
    return Predictions(logits / off, labels, "calibration")


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def slow_score(name: str, row: list[float], k: int, u: float, k_reg: int = 0, lam: float = 0.0) -> float:
    """The score of one class, in words of the papers; ``u`` of the class's own probability counts."""
    if name == "lac":
        return 1 - row[k]
    before = [j for j in range(len(row)) if row[j] > row[k] or (row[j] == row[k] and j < k)]
    total = sum(row[j] for j in before) + u * row[k]
    return total + lam * max(0, len(before) + 1 - k_reg) if name == "raps" else total


def slow_sets(
    name: str,
    fitted: Predictions,
    new: np.ndarray,
    coverage: float,
    *,
    seed: int,
    randomised: bool = True,
    per_class: bool = False,
    repeat: list[int] | None = None,
    **options: float,
) -> list[list[bool]]:
    """Sets by a loop over rows and classes, with a sorted list for the quantile."""
    n_classes = new.shape[1]

    def rows(logits: np.ndarray) -> list[tuple[list[float], float]]:
        probs = softmax(logits)
        us = draws_of(probs, seed) if randomised else np.zeros(len(probs))
        return [(row.tolist(), float(u)) for row, u in zip(probs, us, strict=True)]

    scores: list[list[float]] = [[] for _ in range(n_classes)]
    for i, (row, u) in enumerate(rows(fitted.logits)):
        y = int(fitted.labels[i])
        scores[y] += [slow_score(name, row, y, u, **options)] * (1 if repeat is None else repeat[i])
    pools = scores if per_class else [[each for pool in scores for each in pool]] * n_classes
    limits = []
    for pool in pools:
        k = math.ceil((len(pool) + 1) * Fraction(str(coverage)))
        limits.append(sorted(pool)[k - 1] if k <= len(pool) else math.inf)
    return [
        [slow_score(name, row, k, u, **options) <= limits[k] + 1e-12 for k in range(n_classes)] for row, u in rows(new)
    ]
