"""How often prediction sets hold the true class, and how large they are, by simulation.

Ten classes, logits drawn at random and labels drawn from their softmax, then made too sure by a temperature; one class
is much harder than the others. Sets are fitted on n rows and measured on fresh ones, many times over.

    python benchmarks/conformal.py              # the tables of docs/conformal.md, about two minutes
    python benchmarks/conformal.py --quick      # 20 repetitions
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from surefoot.prediction_sets import PredictionSets, compare_sets, coverage_range, fit_sets
from surefoot.prediction_sets.sets import score
from surefoot.schema import Predictions

CLASSES = 10
POOL = 40_000
SIZES = (50, 200, 1000, 10_000)
METHODS = ("lac", "aps", "aps:randomised=false", "raps", "chosen")
COVERAGE = 0.9


def population(seed: int) -> Predictions:
    """Draw rows; those of class 0 are told from the others with difficulty."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, POOL)
    strength = np.where(labels == 0, 1.0, 3.0)
    logits = strength[:, None] * np.eye(CLASSES)[labels] + rng.standard_normal((POOL, CLASSES))
    return Predictions(2.0 * logits, labels, "calibration")


class Pool:
    """Rows to measure on: their scores are computed once for each method."""

    def __init__(self) -> None:
        self.rows = population(1)
        exps = np.exp(self.rows.logits - self.rows.logits.max(1, keepdims=True))
        self.probs = exps / exps.sum(1, keepdims=True)
        self.scores: dict[tuple[str, int], np.ndarray] = {}

    def inside(self, sets: PredictionSets) -> np.ndarray:
        """Return which classes are in the sets of all rows."""
        key = (sets.method, sets.seed)
        if key not in self.scores:
            self.scores = {**dict(list(self.scores.items())[-30:]), key: score(sets.method, self.probs, sets.seed)}
        return self.scores[key] <= np.array(sets.thresholds)


def measure(method: str, n: int, repeats: int, pool: Pool, source: Predictions, *, per_class: bool) -> list[str]:
    """Fit sets many times and return a line of the table."""
    rng = np.random.default_rng(n)
    labels = pool.rows.labels
    coverages, worst, sizes, empty = [], [], [], []
    for _ in range(repeats):
        some = source.rows(rng.choice(POOL, n, replace=False))
        chosen = compare_sets(some, coverage=COVERAGE).best if method == "chosen" else method
        inside = pool.inside(fit_sets(some, chosen, coverage=COVERAGE, per_class=per_class))
        hit = inside[np.arange(POOL), labels]
        coverages.append(hit.mean())
        worst.append(hit[labels == 0].mean())
        sizes.append(inside.sum(1).mean())
        empty.append((~inside.any(1)).mean())
    low, high = coverage_range(n, COVERAGE)
    within = np.mean([low <= each <= high for each in coverages])
    k = math.ceil((n + 1) * COVERAGE)
    law = stats.beta(k, n + 1 - k)
    return [
        f"{n:,}",
        "chosen by cross-fitting" if method == "chosen" else f"`{method}`",
        f"{100 * np.mean(coverages):.1f} ± {100 * np.std(coverages):.1f}",
        "" if per_class else f"{100 * law.mean():.1f} ± {100 * law.std():.1f}",
        "" if per_class else f"{100 * within:.0f}",
        f"{100 * np.mean(worst):.1f}",
        f"{np.mean(sizes):.2f}",
        f"{100 * np.mean(empty):.1f}",
    ]


def table(repeats: int, *, per_class: bool, methods: Sequence[str], sizes: Sequence[int]) -> None:
    """Print one table."""
    pool, source = Pool(), population(0)
    heads = ["n", "score", "covered % ± sd", "by the law", "within 95 %", "hard class %", "classes in set", "empty %"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for n in sizes:
        for method in methods:
            fewer = max(20, repeats // 5) if n >= 10_000 else repeats
            if not (method in ("raps", "chosen") and n < 100):  # too few rows to choose options on
                print(f"| {' | '.join(measure(method, n, fewer, pool, source, per_class=per_class))} |", flush=True)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true")
    repeats = 20 if parser.parse_args().quick else 200
    print(f"{COVERAGE:.0%} asked for; {repeats} repetitions, a fifth of them at n = 10,000.\n")
    table(repeats, per_class=False, methods=METHODS, sizes=SIZES)
    print("\nA threshold for each class:\n")
    table(repeats, per_class=True, methods=("lac", "aps"), sizes=SIZES[1:])


if __name__ == "__main__":
    main()
