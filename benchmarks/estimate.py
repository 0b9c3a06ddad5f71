"""How often estimates without labels hold the truth, and how often a reference that does not fit is refused.

A class is drawn, and numbers around its unit vector, as in ``simulated.py``: softmax(a · x) is calibrated where all
classes are as frequent, and s > 1 makes it too sure. The reference has classes of equal share. Under label shift the
new rows have others; under covariate shift their noise is larger by a factor, or their logits are.

    python benchmarks/estimate.py                   # the tables of docs/estimate.md, some minutes
    python benchmarks/estimate.py --repetitions 20  # quickly
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.auditing import estimate
from surefoot.errors import ShiftError
from surefoot.metrics import bin_index
from surefoot.metrics.interval import Interval
from surefoot.schema import Predictions

TRUE_ROWS = 400_000  # of which the truth is the mean
SIGNALS = {2: 1.5, 10: 2.5}


class Case(NamedTuple):
    """New rows of one kind."""

    name: str
    classes: int
    sharpen: float
    shares: tuple[float, ...]
    noise: float = 1.0
    scale: float = 1.0


def _last(classes: int, share: float) -> tuple[float, ...]:
    return (*[(1 - share) / (classes - 1)] * (classes - 1), share)


LABEL_SHIFT = (
    Case("none", 2, 1.0, _last(2, 0.5)),
    Case("mild", 2, 1.0, _last(2, 0.3)),
    Case("strong", 2, 1.5, _last(2, 0.05)),
    Case("none", 10, 1.0, _last(10, 0.1)),
    Case("mild", 10, 1.0, _last(10, 0.2)),
    Case("strong", 10, 1.5, _last(10, 0.5)),
)
OTHER_SHIFT = (
    Case("noise × 1.25", 2, 1.0, _last(2, 0.3), noise=1.25),
    Case("noise × 1.5", 2, 1.0, _last(2, 0.3), noise=1.5),
    Case("logits × 1.25", 2, 1.0, _last(2, 0.3), scale=1.25),
    Case("noise × 1.25", 10, 1.0, _last(10, 0.2), noise=1.25),
    Case("noise × 1.5", 10, 1.0, _last(10, 0.2), noise=1.5),
    Case("logits × 1.25", 10, 1.0, _last(10, 0.2), scale=1.25),
)


def draw(n: int, case: Case, source: torch.Generator, *, new: bool) -> tuple[Tensor, Tensor]:
    """Draw logits and labels of the reference, or of new rows."""
    shares = torch.tensor(case.shares if new else _last(case.classes, 1 / case.classes), dtype=torch.float64)
    labels = torch.multinomial(shares, n, replacement=True, generator=source)
    a = SIGNALS[case.classes]
    x = torch.randn(n, case.classes, generator=source, dtype=torch.float64) * (case.noise if new else 1.0)
    x[torch.arange(n), labels] += a
    return case.sharpen * a * x * (case.scale if new else 1.0), labels


def truth(case: Case) -> dict[str, float]:
    """Return what is to be estimated, from very many new rows with their labels."""
    logits, labels = draw(TRUE_ROWS, case, torch.Generator().manual_seed(7), new=True)
    probs = logits.softmax(1)
    confidence, predicted = probs.max(1)
    right = (predicted == labels).double()
    if case.classes == 2:
        sure, happened = probs[:, 1].contiguous(), labels.double()
        edges = sure.sort().values[torch.arange(1, 15) * TRUE_ROWS // 15]
        bins = torch.searchsorted(edges, sure)
    else:
        sure, happened, bins = confidence, right, bin_index(confidence, 15)
    gaps = torch.zeros(15, dtype=torch.float64).index_add_(0, bins, sure - happened)
    nll = -probs.gather(1, labels[:, None]).log().mean()
    ece = gaps.abs().sum() / TRUE_ROWS
    found = {"accuracy": right.mean(), "ece": ece, "nll": nll}
    return {**{name: value.item() for name, value in found.items()}, "share": case.shares[-1]}


def held(case: Case, n: int, repetitions: int) -> tuple[float, dict[str, float], float]:
    """Return how often it refuses, how often each interval holds the truth, and how wide accuracy's is."""
    true, source = truth(case), torch.Generator().manual_seed(n)
    refused, width, counts = 0, 0.0, dict.fromkeys(true, 0)
    for _ in range(repetitions):
        reference, labels = draw(n, case, source, new=False)
        new, _ = draw(n, case, source, new=True)
        try:
            found = estimate({"logits": new.numpy()}, Predictions(reference.numpy(), labels.numpy(), "test"))
        except ShiftError:
            refused += 1
            continue
        measures: dict[str, Interval] = {"share": found.shares[-1].new, **found.measures}
        measures["ece"] = measures.get("risk_ece", measures.get("ece"))  # type: ignore[assignment]
        for name, value in true.items():
            counts[name] += value in measures[name]
        width += measures["accuracy"].high - measures["accuracy"].low
    answered = max(1, repetitions - refused)
    return refused / repetitions, {name: count / answered for name, count in counts.items()}, width / answered


def coverage(cases: tuple[Case, ...], sizes: list[int], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Make the table of label shift."""
    yield ("label shift", "K", "rows", "refused", "accuracy", "ECE", "NLL", "share", "width of accuracy's")
    for case in cases:
        for n in sizes:
            refused, each, width = held(case, n, repetitions)
            shares = (f"{100 * value:.1f} %" for value in (refused, *each.values()))
            yield (case.name, str(case.classes), f"{n:,}", *shares, f"{100 * width:.1f} points")


def power(cases: tuple[Case, ...], sizes: list[int], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Make the table of other shifts."""
    yield ("new rows", "K", "rows", "refused")
    for case in cases:
        for n in sizes:
            yield (case.name, str(case.classes), f"{n:,}", f"{100 * held(case, n, repetitions)[0]:.1f} %")


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200, help="per line (default 200)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000, 10_000])
    names = sorted({case.name for case in (*LABEL_SHIFT, *OTHER_SHIFT)})
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these kinds of new rows")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for table, cases in ((coverage, LABEL_SHIFT), (power, OTHER_SHIFT)):
        asked = tuple(case for case in cases if case.name in chosen.only)
        for number, row in enumerate(table(asked, chosen.sizes, chosen.repetitions) if asked else ()):
            print(f"| {' | '.join(row)} |", flush=True)
            if not number:
                print(f"|{'---|' * len(row)}", flush=True)
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
