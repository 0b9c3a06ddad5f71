"""The runs that most questions about curvature along training share: five optimizers at four learning rates."""

from __future__ import annotations

import math
import statistics

from surefoot.statistics import Estimate, Spread, correlation, mean, spread
from surefoot.studies._arms import moving
from surefoot.studies.contract import Analysis, Arm, Column, Published, Row, Runs, Size, Table

RATES = {
    "gd": (2 / 40, 2 / 20, 2 / 10, 2 / 5),
    "sgd": (0.02, 0.05, 0.1, 0.2),
    "adamw": (1e-4, 3e-4, 1e-3, 3e-3),
    "muon": (0.002, 0.005, 0.01, 0.02),
    "sam": (0.02, 0.05, 0.1, 0.2),
}
NAMES = {"gd": "GD", "sgd": "SGD", "adamw": "AdamW", "muon": "Muon", "sam": "SAM"}
PLAIN = "momentum=0,weight_decay=0"
OPTIONS = {"gd": "", "sgd": f",{PLAIN}", "adamw": ",weight_decay=0", "muon": "", "sam": f",rho=0.05,{PLAIN}"}
# On a laptop: until most runs have fitted the training set. What rises first and falls then is not seen before.
STEPS = {"gd": 800, "sgd": 4000, "adamw": 2400, "muon": 1200, "sam": 4000}
# Moments are the same for both trackers, so that every ECE has its sharpness. GD makes few, dear steps.
EVERY: dict[Size, dict[bool, int]] = {
    "smoke": {True: 4, False: 4},
    "laptop": {True: 10, False: 20},
    "paper": {True: 100, False: 100},
}
# Examples for quality and for sharpness, which a probe of a few hundred would show far too high.
PROBE: dict[Size, tuple[int, int]] = {"smoke": (500, 32), "laptop": (2000, 1000), "paper": (5000, 5000)}
CORRELATED = ("train ECE", "train KCE", "test ECE", "test KCE")
HORIZONS = (0.25, 0.5)  # shares of a run, beside the whole of it

BULK_RATES = (2 / 70, 2 / 50, 2 / 30)  # both ends as published
PROJECTED_STEPS = 2000
RENEWED: dict[Size, int] = {"smoke": 10, "laptop": 25, "paper": 10}


def track(size: Size, *, full_batch: bool = False, more: str = "") -> str:
    """Say what to measure along training, and how often."""
    every, (seen, probe) = EVERY[size][full_batch], PROBE[size]
    own = f"quality:every={every},examples={seen},margins:every={every},examples={seen}"
    sharpness = f"gn_sharpness:every={every},examples={probe}"
    return ",".join(filter(None, (own, sharpness, more)))


def label(optimizer: str, lr: float) -> str:
    """Name an arm."""
    return f"{optimizer}, η = {lr:.3g}"


def coupled(optimizer: str, lr: float, size: Size, *, loss: str = "", more: str = "", classes: int = 10) -> Arm:
    """Make the arm of an optimizer at a learning rate."""
    full = optimizer == "gd"
    method = f"{optimizer}:lr={lr:.6g}{OPTIONS[optimizer]}"
    method = f"{loss} + {method}" if loss else method
    measured = track(size, full_batch=full, more=more)
    return moving(method, size, steps=STEPS[optimizer], full_batch=full, track=measured, classes=classes)


def projected(k: int, lr: float, size: Size) -> Arm:
    """Make the arm of BulkSGD without its top k directions; k = 0 is SGD for as many steps.

    Each basis takes dozens of products with the Hessian of all training examples, so a laptop renews it seldom.
    """
    method = f"bulk_sgd:k={k},r={RENEWED[size]},lr={lr:.6g},{PLAIN}" if k else f"sgd:lr={lr:.6g},{PLAIN}"
    return moving(method, size, steps=PROJECTED_STEPS, track=track(size))


def all_coupled(size: Size, optimizers: tuple[str, ...] = tuple(RATES), classes: int = 10) -> dict[str, Arm]:
    """Make all arms; the smoke size has two rates of each."""
    every = [(name, lr) for name in optimizers for lr in rates(name, size)]
    return {label(name, lr): coupled(name, lr, size, classes=classes) for name, lr in every}


def rates(optimizer: str, size: Size) -> tuple[float, ...]:
    """Return the learning rates of an optimizer."""
    return RATES[optimizer][1:3] if size == "smoke" else RATES[optimizer]


def arms_of(runs: Runs, optimizer: str) -> list[str]:
    """List an optimizer's arms, smallest rate first."""
    return [arm for arm in runs.found if arm.partition(",")[0] == optimizer]


def ranked(runs: Runs, optimizer: str, key: str) -> dict[int, list[list[float]]]:
    """Read a tracked quantity of all arms of an optimizer: one series per arm and seed, numbered by rank and seed.

    Arms are paired across optimizers by the rank of their learning rate.
    """
    found: dict[int, list[list[float]]] = {}
    for rank, arm in enumerate(arms_of(runs, optimizer)):
        for seed, steps in runs.series(arm, key).items():
            if steps:
                found[1000 * rank + seed] = [[float(step), values[0]] for step, values in steps.items()]
    return found


def correlate(runs: Runs, published: Published) -> Analysis:
    """Correlate calibration error and sharpness over each run: mean ± sd over rates, also over shorter horizons.

    Args:
        runs: Runs of :func:`all_coupled`.
        published: What was printed for each of ``CORRELATED``; may lack some or all.

    Returns:
        The table, and the mean r of train ECE over all runs of each optimizer.
    """
    rows = [_row(runs, name, 1.0, published) for name in CORRELATED]
    rows += [_row(runs, name, share, {}) for share in HORIZONS for name in ("train ECE", "test ECE")]
    numbers: dict[str, Estimate] = {}
    for optimizer in RATES:
        per_run = [r for arm in arms_of(runs, optimizer) for r in _by_seed(runs, arm, "train ECE", 1.0)]
        numbers[f"r of train ECE and sharpness, {NAMES[optimizer]}"] = mean(per_run)
    return Analysis(Table(tuple(Column(key, f"r, {name}") for key, name in NAMES.items()), tuple(rows)), numbers)


def _row(runs: Runs, name: str, share: float, published: Published) -> Row:
    label = name if share == 1 else f"{name}, first {100 * share:.0f} % of the steps"
    measured = {optimizer: _over_rates(runs, optimizer, name, share) for optimizer in RATES}
    return Row(label, published.get(name, {}), measured)


def _over_rates(runs: Runs, optimizer: str, name: str, share: float) -> Spread:
    """Average r over seeds at each rate, then mean ± sd over rates."""
    found = [_by_seed(runs, arm, name, share) for arm in arms_of(runs, optimizer)]
    return spread(statistics.fmean(values) for values in found if values)


def _by_seed(runs: Runs, arm: str, name: str, share: float) -> list[float]:
    key = name.lower().replace(" ", "/")
    found = []
    for steps in runs.series(arm, key, "gn_sharpness/value").values():
        end = share * max(steps, default=0)
        r = correlation(values for step, values in steps.items() if step <= end)
        found += [r] if math.isfinite(r) else []
    return found
