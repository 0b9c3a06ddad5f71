"""Speed of metrics and calibrators, beside other libraries, in one process and in turns.

Each contest runs its competitors one after the other, again and again, and compares medians: on a busy machine the
times mean little, their ratios more. Values are compared as well; a contest whose values differ is marked.

    python benchmarks/metrics.py                 # everything, a few minutes
    python benchmarks/metrics.py --quick         # smaller arrays, under a minute
    python benchmarks/metrics.py --json out.json
    python benchmarks/metrics.py --only isotonic --threads 2

netcal takes part where it is installed (``pip install netcal``); it is not among the project's own dependencies,
because it brings pyro, gpytorch and tensorboard with it, 448 MB in an environment that has torch alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.calibration import _TemperatureScaling  # the bare fit, without scikit-learn's cross-validation around it
from sklearn.isotonic import IsotonicRegression
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

from surefoot.calibrators.isotonic import rising_curve
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics import from_logits
from surefoot.metrics.bootstrap import bootstrap
from surefoot.metrics.classwise_ece import classwise_ece
from surefoot.metrics.ece import ece
from surefoot.metrics.kce import squared_kce
from surefoot.metrics.skce import skce
from surefoot.schema import Predictions

Run = Callable[[], float]


@dataclass(frozen=True)
class Target:
    """What a contest has to reach: a ratio to a competitor, or a time of our own."""

    start: str
    """How the contest's name begins."""
    competitor: str
    least: float = 0.0
    """The competitor's time by ours, at least."""
    most_seconds: float = math.inf

    def met(self, row: Row) -> bool:
        """Return whether a row reaches it."""
        return row.ratio >= self.least and row.seconds <= self.most_seconds

    def __str__(self) -> str:
        """Say it shortly."""
        return f"≥ {self.least:.2f} ×" if self.least else f"≤ {1000 * self.most_seconds:,.0f} ms"


TARGETS = (
    Target("ECE from probabilities", "floor: probs.max(1)", least=1 / 1.3),
    Target("ECE from logits", "floor: softmax + max", least=1.0),
    Target("classwise ECE", "torchmetrics, class by class", least=30),
    Target("temperature fit", "scikit-learn", least=10),
    Target("isotonic", "scikit-learn", least=7),
    Target("squared KCE, 1,000,000", "surefoot", most_seconds=1.0),
    Target("1,000 bootstrap resamples", "surefoot", most_seconds=0.2),
    *(Target("", peer, least=1.0) for peer in ("torchmetrics", "netcal", "all pairs in memory")),
)


@dataclass(frozen=True)
class Row:
    """One competitor in one contest."""

    contest: str
    competitor: str
    seconds: float
    ratio: float
    """Its median time by ours: above 1 it is slower."""
    value: float
    difference: float
    """Its value less ours."""


def contest(name: str, ours: Run, others: dict[str, Run], repeats: int) -> list[Row]:
    """Run all competitors in turns and compare their medians."""
    competitors = {"surefoot": ours, **others}
    values = {key: run() for key, run in competitors.items()}  # the first round warms up
    times: dict[str, list[float]] = {key: [] for key in competitors}
    for _ in range(repeats):
        for key, run in competitors.items():
            start = time.perf_counter()
            run()
            times[key].append(time.perf_counter() - start)
    medians = {key: statistics.median(found) for key, found in times.items()}
    base, own = medians["surefoot"], values["surefoot"]
    print(name, {key: f"{m / base:.2f}" for key, m in medians.items()}, file=sys.stderr, flush=True)
    return [Row(name, key, m, m / base, values[key], values[key] - own) for key, m in medians.items()]


def predictions(n: int, n_classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Make logits, probabilities and labels of a classifier that is right in 7 of 10, and as sure with many classes."""
    source = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, n_classes, generator=source)
    favourite = torch.randint(n_classes, (n,), generator=source)
    logits[torch.arange(n), favourite] += 8 + math.log(n_classes / 10)
    labels = torch.where(torch.rand(n, generator=source) < 0.7, favourite, (favourite + 1) % n_classes)
    return logits, logits.softmax(1), labels


def netcal_ece(probs: torch.Tensor, labels: torch.Tensor) -> dict[str, Run]:
    """Return netcal's ECE where it is installed, with float64 input (float32 makes it return wrong values)."""
    if importlib.util.find_spec("netcal") is None:
        return {}
    from netcal.metrics import ECE

    p, y = probs.double().numpy(), labels.numpy()
    return {"netcal": lambda: float(ECE(15).measure(p, y))}


def contests_of_ece(n: int, n_classes: int, repeats: int) -> list[Row]:
    """ECE from probabilities and from logits; the floors are what any implementation must at least do."""
    logits, probs, labels = predictions(n, n_classes)
    size = f"{n:,} × {n_classes:,}"
    rows = contest(
        f"ECE from probabilities, {size}",
        lambda: ece(probs, labels).item(),
        {
            "floor: probs.max(1)": lambda: float(probs.max(1).values[0]) * 0 + float("nan"),
            "torchmetrics": lambda: multiclass_calibration_error(
                probs, labels, num_classes=n_classes, n_bins=15, validate_args=False
            ).item(),
            **netcal_ece(probs, labels),
        },
        repeats,
    )
    return rows + contest(
        f"ECE from logits, {size}",
        lambda: from_logits("ece", logits, labels).item(),
        {
            "floor: softmax + max": lambda: float(logits.softmax(1).max(1).values[0]) * 0 + float("nan"),
            "torchmetrics": lambda: multiclass_calibration_error(
                logits, labels, num_classes=n_classes, n_bins=15, validate_args=False
            ).item(),
        },
        repeats,
    )


def contest_of_classwise_ece(n: int, n_classes: int, repeats: int) -> list[Row]:
    """Classwise ECE beside a loop over classes, which is how other libraries do it."""
    _, probs, labels = predictions(n, n_classes)

    def loop() -> float:
        columns = probs.T.contiguous()  # as the peer likes them: columns with gaps cost it twice the time
        errors = [
            binary_calibration_error(column, (labels == k).long(), n_bins=15, validate_args=False)
            for k, column in enumerate(columns)
        ]
        return torch.stack(errors).mean().item()

    def ours() -> float:
        return classwise_ece(probs, labels).item()

    return contest(f"classwise ECE, {n:,} × {n_classes:,}", ours, {"torchmetrics, class by class": loop}, repeats)


def contest_of_temperature(n: int, n_classes: int, repeats: int) -> list[Row]:
    """Temperature fitted on float32 logits; the values compared are the temperatures."""
    logits, _, labels = predictions(n, n_classes)
    data = Predictions(logits.numpy(), labels.numpy(), "calibration")

    def peer() -> float:
        return 1 / float(_TemperatureScaling().fit(data.logits, data.labels).beta_)

    def ours() -> float:
        return fit_temperature(data).temperature

    return contest(f"temperature fit, {n:,} × {n_classes:,}", ours, {"scikit-learn": peer}, repeats)


def contest_of_isotonic(n: int, n_classes: int, repeats: int) -> list[Row]:
    """One-versus-rest isotonic fits; the values compared are the means of all fitted knots' curves at 0.5."""
    _, probs, labels = predictions(n, n_classes)
    columns, truth = probs.double().T.contiguous().numpy(), labels.numpy()

    def ours() -> float:
        curves = [rising_curve(column, truth == k) for k, column in enumerate(columns)]
        return float(np.mean([np.interp(0.5, *curve) for curve in curves]))

    def peer() -> float:
        fits = [IsotonicRegression(out_of_bounds="clip").fit(column, truth == k) for k, column in enumerate(columns)]
        return float(np.mean([fit.predict([0.5])[0] for fit in fits]))

    return contest(f"isotonic one-versus-rest fit, {n:,} × {n_classes:,}", ours, {"scikit-learn": peer}, repeats)


def contest_of_kernels(n: int, repeats: int) -> list[Row]:
    """Kernel errors: the top-label one in O(n log n) against all pairs, and SKCE in blocks."""
    _, probs, labels = predictions(n, 10)

    def all_pairs() -> float:
        c, predicted = probs.double().max(1)
        r = (predicted == labels).double() - c
        return ((r[:, None] * r) * (-(c[:, None] - c).abs() / 0.4).exp()).mean().item()

    rows = contest(
        f"squared KCE, {n:,}", lambda: squared_kce(probs, labels).item(), {"all pairs in memory": all_pairs}, repeats
    )
    return rows + contest(f"SKCE, {n:,} × 10", lambda: skce(probs, labels).item(), {}, repeats)


def own_times(n: int, repeats: int) -> list[Row]:
    """What has no competitor: a large KCE, and the bootstrap of ECE."""
    _, probs, labels = predictions(n, 10)
    few = probs[:10_000], labels[:10_000]
    rows = contest(f"squared KCE, {n:,}", lambda: squared_kce(probs, labels).item(), {}, repeats)
    return rows + contest(
        "1,000 bootstrap resamples of ECE, n = 10,000",
        lambda: bootstrap("ece", *few, kind="percentile").low,
        {},
        repeats,
    )


def show(rows: list[Row]) -> None:
    """Print the table."""
    title = f"{torch.get_num_threads()} thread(s)"
    table = Table("contest", "competitor", "ms", "× ours", "value − ours", "target", "", title=title)
    last = ""
    for row in rows:
        goals = (each for each in TARGETS if row.contest.startswith(each.start) and row.competitor == each.competitor)
        target = next(goals, None)
        goal = (str(target), "met" if target.met(row) else "MISSED") if target else ("", "")
        difference = "" if row.competitor == "surefoot" or row.difference != row.difference else f"{row.difference:.1e}"
        name = row.contest if row.contest != last else ""
        table.add_row(name, row.competitor, f"{1000 * row.seconds:,.1f}", f"{row.ratio:.2f}", difference, *goal)
        last = row.contest
    Console(width=120).print(table)


# Each given how many times fewer examples to take, and how many rounds.
CONTESTS: dict[str, Callable[[int, int], list[Row]]] = {
    "ece": lambda less, n: contests_of_ece(1_000_000 // less, 10, n) + contests_of_ece(50_000 // less, 1000, n),
    "classwise": lambda less, n: contest_of_classwise_ece(50_000 // less, 1000, min(n, 3)),
    "temperature": lambda less, n: contest_of_temperature(50_000 // less, 1000, min(n, 3)),
    "isotonic": lambda less, n: contest_of_isotonic(50_000 // less, 1000 // less, min(n, 3)),
    "kernels": lambda less, n: contest_of_kernels(5_000, n),
    "own": lambda less, n: own_times(1_000_000 // less, n),
}


def main() -> int:
    """Run everything and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the examples")
    parser.add_argument("--repeats", type=int, default=5, help="rounds after the first one (default 5)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="threads of torch (default 1, then 2)")
    parser.add_argument("--only", nargs="+", choices=sorted(CONTESTS), help="some contests only")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    written = []
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        chosen = arguments.only or list(CONTESTS)
        rows = [row for name in chosen for row in CONTESTS[name](10 if arguments.quick else 1, arguments.repeats)]
        show(rows)
        written.append({"threads": threads, "rows": [asdict(row) for row in rows]})
    if arguments.json:
        about = {"torch": torch.__version__, "machine": platform.machine(), "tables": written}
        arguments.json.write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
