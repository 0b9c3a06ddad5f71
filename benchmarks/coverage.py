"""How often 95 % intervals hold the truth, by simulation.

``simulated.py`` says how predictions are drawn.

    python benchmarks/coverage.py                     # the tables of docs/metrics.md, about half an hour
    python benchmarks/coverage.py --quick             # 60 repetitions, fewer cells
    python benchmarks/coverage.py --only headline     # which tables
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from simulated import Cell, ece_of, fresh, population, signal
from torch import Tensor
from weighted import RISKS, WEIGHTED, risks, weighted

from surefoot.auditing.better import PairedRows, better_calibrated
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics import Stream
from surefoot.metrics._each_label import corrected
from surefoot.metrics.bootstrap import bootstrap, paired_bootstrap
from surefoot.metrics.chance import chance
from surefoot.metrics.interval import Interval
from surefoot.metrics.multilabel import LabelStream
from surefoot.metrics.risk import risk_gap_of_sums
from surefoot.metrics.verdict import verdict_of_sums
from surefoot.schema import Predictions

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
OTHERS = ("aurc", "entropy", "true_class_entropy")
PAIRED = ("accuracy", "confidence_gap", "ece", "nll", "brier")
ERRORS = ("ece", "debiased_ece", "smooth_ece", "classwise_ece")


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


def single(cells: Sequence[Cell], repetitions: int, names: Sequence[str] = SINGLE) -> Iterator[tuple[str, ...]]:
    """Measure coverage of each metric alone."""
    yield ("n", "K", "accuracy", "s", *names)
    for cell in cells:
        pool, source = population(cell), torch.Generator().manual_seed(1)
        truths, found = {name: pool.value(name) for name in names}, {name: Held() for name in names}
        for _ in range(repetitions):
            (probs,), labels = pool.draw(cell.n, source)
            for name in names:
                found[name].add(bootstrap(name, probs, labels), truths[name])
        yield (*_of(cell), *(str(found[name]) for name in names))


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


def repaired(cells: Sequence[Cell], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure coverage of ECE after a temperature fitted on each half of the rows and applied to the other."""
    yield ("n", "K", "accuracy", "s", "ECE after temperature", "mean of its truth")
    for cell in (each for each in cells if each.n >= 200 and each.accuracy <= 0.96 and each.n * each.classes <= 10**5):
        pool, source, held, truths = population(cell), torch.Generator().manual_seed(5), Held(), 0.0
        log_probs = pool.predictions[0].log()
        for _ in range(repetitions):
            rows, labels = pool.rows(cell.n, source)
            half = torch.randint(2, (cell.n,), generator=source).bool()
            fitted = [_temperature(log_probs[rows[side]], labels[side]) for side in (half, ~half)]
            probs = torch.where(half[:, None], log_probs[rows] / fitted[1], log_probs[rows] / fitted[0]).softmax(1)
            # The rows of both halves share one set of bins, so the truth mixes both temperatures within each.
            both = torch.cat([(log_probs / each).softmax(1) for each in fitted])
            truth = ece_of(torch.cat([pool.truth, pool.truth]), both)
            held.add(bootstrap("ece", probs, labels), truth)
            truths += truth / repetitions
        yield (*_of(cell), str(held), f"{100 * truths:.1f} %")


def _temperature(log_probs: Tensor, labels: Tensor) -> float:
    return fit_temperature(Predictions(log_probs.numpy(), labels.numpy(), "calibration")).temperature


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
            found = better_calibrated(*map(verdict_of_sums, bins), bins, PairedRows((a, b), labels), 1.0)
            said[found.letter if found else ""] += 1
        yield (*_of_pair(cell, other), *(f"{100 * count / repetitions:.1f} %" for count in said.values()))


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


TABLES = ("single", "others", "repaired", "paired", "headline", "limits", "weighted", "risk", "labels")


def labelled(sizes: Sequence[int], repetitions: int) -> Iterator[tuple[str, ...]]:
    """Measure coverage for several labels per row, whose probabilities and truths are correlated within a row.

    ``s`` makes log-odds sharper by that share and shifts them by it, so 0 is calibrated. The last column says how often
    any label is called miscalibrated, corrected by Holm.
    """
    yield ("n", "labels", "correlation", "s", "micro gap", "micro ECE", "gap of each label", "any label found")
    for n, (k, together, s) in product(sizes, ((8, 0.7, 0.0), (8, 0.7, 0.15), (40, 0.9, 0.0), (40, 0.3, 0.3))):
        source = torch.Generator().manual_seed(3)
        pool = LabelStream()
        for _ in range(20):
            pool.update(*_labels(20_000, k, together, s, source))
        off = (pool.bins[1] - pool.bins[2]).sum(0) / (pool.n * k) if s else torch.zeros(pool.n_bins)
        of_label = (pool.bins[1] - pool.bins[2]).sum(1) / pool.n if s else torch.zeros(k)
        gap, ece, single_labels, found = Held(), Held(), Held(), 0
        for _ in range(repetitions):
            stream = LabelStream()
            stream.update(*_labels(n, k, together, s, source))
            micro = stream.micro()
            gap.add(micro.gap, off.sum().item())
            ece.add(micro.ece, off.abs().sum().item())
            for sums, truth in zip(stream.bins.unbind(1), of_label.tolist(), strict=True):
                single_labels.add(risk_gap_of_sums(sums, 0.95), truth)
            found += min(corrected(stream.bins)) < 0.05
        cells = (str(gap), str(ece), str(single_labels), f"{100 * found / repetitions:.0f} %")
        yield (f"{n:,}", str(k), f"{together:g}", f"{s:g}", *cells)


def _labels(n: int, k: int, together: float, s: float, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw probabilities and labels of n rows, each with a part that its labels share."""

    def normal() -> Tensor:
        shared, own = torch.randn(n, 1, generator=source), torch.randn(n, k, generator=source)
        return (together**0.5 * shared + (1 - together) ** 0.5 * own).double()

    z = torch.linspace(-3.5, 0.5, k).double() + 1.2 * normal()
    happened = torch.special.ndtr(normal()) < z.sigmoid()
    return ((1 + s) * z + s).sigmoid(), happened


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300, help="per cell (default 300)")
    parser.add_argument("--quick", action="store_true", help="60 repetitions and a few cells")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=TABLES,
        help="these tables",
    )
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    times = 60 if chosen.quick else chosen.repetitions
    cells, pairs, heads = (QUICK, PAIRS[:2], HEADLINES[:2]) if chosen.quick else (CELLS, PAIRS, HEADLINES)
    tables: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
        "single": lambda: single(cells, times),
        "others": lambda: single(cells[:8], times, OTHERS),
        "repaired": lambda: repaired(cells, times),
        "paired": lambda: paired(pairs, times),
        "headline": lambda: headlines(heads, times),
        "limits": lambda: limits(cells, times),
        "weighted": lambda: weighted(WEIGHTED[:2] if chosen.quick else WEIGHTED, times, SINGLE, Held),
        "risk": lambda: risks(RISKS[:3] if chosen.quick else RISKS, times, Held),
        "labels": lambda: labelled((200, 1000) if chosen.quick else (200, 1000, 10_000), times),
    }
    for name, rows in tables.items():
        if chosen.only is None or name in chosen.only:
            show(name, rows())
    return 0


if __name__ == "__main__":
    sys.exit(main())
