"""How often the live page's rules speak: of honest noise, where they should be silent, and of what they are for.

    python benchmarks/watch.py --findings

A run counts if the rule speaks at any of its looks. The rules themselves are called, on made-up records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.serve.findings import best_nll, confidence
from surefoot.serve.stability import BLOCK, LOOKED_AT, diverging, sharpness

Record = dict[str, Any]
Array = NDArray[np.float64]
STEPS, LOOKS, CLASSES = 2000, 50, 10


def losses(draw: np.random.Generator, kind: str) -> Iterator[list[Record]]:
    """Windows of steps, as the page sees them after every ten."""
    steps = np.arange(1, STEPS + 1)
    noise = {
        "normal": lambda: draw.normal(0, 0.3, STEPS),
        "skewed": lambda: draw.lognormal(0, 1, STEPS) - math.exp(0.5),
        "t": lambda: 0.3 * draw.standard_t(3, STEPS),
    }[kind.split(", ")[0]]()
    level = 0.3 + 2 * np.exp(-steps / 300) if "falling" in kind else np.full(STEPS, 2.0)
    if "growing" in kind:
        level = level + 0.05 * np.exp(np.clip((steps - 1500) / 40, -50, 5)) * (steps > 1500)
    values = level + noise
    records: list[Record] = [{"step": int(s), "loss": float(v)} for s, v in zip(steps, values, strict=True)]
    for end in range(BLOCK, STEPS + 1, BLOCK):
        yield records[max(0, end - LOOKED_AT) : end]


def rows_of(draw: np.random.Generator, n: int, sure: float) -> tuple[Array, NDArray[np.intp]]:
    """Logits, and labels drawn by what they say."""
    logits = sure * draw.normal(size=(n, CLASSES))
    labels = (softmax(logits).cumsum(1) > draw.random((n, 1))).argmax(1)
    return logits, labels


def softmax(logits: Array) -> Array:
    """Probabilities of rows of logits."""
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))


def look(epoch: int, logits: Array, labels: NDArray[np.intp]) -> Record:
    """What the tracker ``quality`` writes down of one look."""
    probs, n = softmax(logits), len(labels)
    sure = probs.max(1)
    gaps = sure - (probs.argmax(1) == labels)
    nll = -np.log(probs[np.arange(n), labels])
    bins = np.minimum((15 * sure).astype(int), 14)
    count = np.bincount(bins, minlength=15)
    mean = np.bincount(bins, sure, minlength=15) / np.maximum(count, 1)
    return {
        **{"tracker": "quality", "step": 10 * epoch, "epoch": epoch},
        **{"calibration/loss": float(nll.mean()), "calibration/loss_error": float(nll.std(ddof=1) / math.sqrt(n))},
        **{"calibration/gap": float(gaps.mean()), "calibration/gap_error": float(gaps.std(ddof=1) / math.sqrt(n))},
        "bins": {
            "count": count.tolist(),
            "confidence": [float(m) if c else None for m, c in zip(mean, count, strict=True)],
        },
    }


def plateau(
    draw: np.random.Generator, n: int, sure: float, *, jitter: float = 0.0, fresh: bool = False, end: float = 1.0
) -> Iterator[list[Record]]:
    """Looks at a calibrated network that goes nowhere; ``end`` multiplies the logits of the last looks."""
    logits, labels = rows_of(draw, n, sure)
    records: list[Record] = []
    for epoch in range(LOOKS):
        if fresh:
            logits, labels = rows_of(draw, n, sure)
        moved = logits + jitter * draw.normal(size=logits.shape)
        records.append(look(epoch, moved * (end if epoch > LOOKS - 10 else 1.0), labels))
        yield records


def ratios(draw: np.random.Generator, values: Array, noise: float) -> Iterator[list[Record]]:
    """Looks at a sharpness, as shares of its threshold."""
    seen = values * np.exp(noise * draw.normal(size=len(values)))
    records = [{"tracker": "gn_sharpness", "gn_sharpness/value": float(v), "gn_sharpness/threshold": 1.0} for v in seen]
    for end in range(1, len(records) + 1):
        yield records[:end]


def sits(records: Sequence[Record]) -> str | None:
    """The half of the rule that says where the sharpness stays."""
    said = sharpness(records)
    return said if said is not None and " sits " in said else None


Rule = Callable[[Sequence[Record]], str | None]
Make = Callable[[np.random.Generator], Iterator[list[Record]]]
GROWTH = 0.3 * 1.02 ** np.arange(100)
CASES: tuple[tuple[str, str, Rule, int, Make], ...] = (
    ("diverging", "loss with normal noise", diverging, 500, lambda d: losses(d, "normal")),
    ("diverging", "falling loss with normal noise", diverging, 500, lambda d: losses(d, "normal, falling")),
    ("diverging", "loss with skewed noise (log-normal)", diverging, 500, lambda d: losses(d, "skewed")),
    ("diverging", "loss with wild noise (t, 3 degrees)", diverging, 500, lambda d: losses(d, "t")),
    ("diverging", "**loss that grows exponentially**", diverging, 200, lambda d: losses(d, "normal, growing")),
    (
        "over-confidence",
        "calibrated, 500 new rows at every look",
        confidence,
        300,
        lambda d: plateau(d, 500, 2, fresh=True),
    ),
    ("over-confidence", "calibrated, 500 rows, few errors", confidence, 300, lambda d: plateau(d, 500, 12, fresh=True)),
    ("over-confidence", "calibrated, the same 500 rows", confidence, 300, lambda d: plateau(d, 500, 2)),
    (
        "over-confidence",
        "**logits × 2 at the end, 1,000 rows**",
        confidence,
        200,
        lambda d: plateau(d, 1000, 2, end=2),
    ),
    ("NLL was best", "plateau, the same 500 rows, jitter 0.3", best_nll, 300, lambda d: plateau(d, 500, 2, jitter=0.3)),
    ("NLL was best", "plateau, the same 500 rows, jitter 1", best_nll, 300, lambda d: plateau(d, 500, 2, jitter=1)),
    (
        "NLL was best",
        "**logits × 2 at the end, 1,000 rows**",
        best_nll,
        200,
        lambda d: plateau(d, 1000, 2, jitter=0.3, end=2),
    ),
    ("sits at 2/η", "70 % of it, noise 10 %", sits, 1000, lambda d: ratios(d, np.full(100, 0.7), 0.1)),
    ("sits at 2/η", "90 % of it, noise 3 %", sits, 1000, lambda d: ratios(d, np.full(100, 0.9), 0.03)),
    ("sits at 2/η", "passes it, 2 % more at each look, noise 3 %", sits, 1000, lambda d: ratios(d, GROWTH, 0.03)),
    ("sits at 2/η", "**at it, noise 5 %**", sits, 1000, lambda d: ratios(d, np.full(100, 1.0), 0.05)),
)


def wilson(told: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    z, p = 1.96, told / runs
    middle, half = p + z * z / (2 * runs), z * math.sqrt(p * (1 - p) / runs + z * z / (4 * runs * runs))
    return max(0.0, middle - half) / (1 + z * z / runs), (middle + half) / (1 + z * z / runs)


def print_table(only: str = "") -> None:
    """Print in how many runs each rule spoke; bold are those in which it should.

    Args:
        only: What is in the names of the rules to ask; all of them where nothing is.
    """
    print("| rule | run | runs | told | 95 % interval |\n|---|---|---:|---:|---|")
    for number, (name, case, rule, runs, make) in enumerate(CASES):
        if only not in name:
            continue
        told = 0
        for seed in range(runs):
            told += any(rule(records) is not None for records in make(np.random.default_rng([number, seed])))
        low, high = wilson(told, runs)
        print(
            f"| {name} | {case} | {runs} | {100 * told / runs:.1f} % | {100 * low:.1f} to {100 * high:.1f} % |",
            flush=True,
        )
