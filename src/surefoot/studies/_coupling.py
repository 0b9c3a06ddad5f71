"""The runs that most questions about curvature along training share: five optimizers at four learning rates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from surefoot.statistics import Estimate, Spread, correlation, mean, spread
from surefoot.studies._arms import moving
from surefoot.studies._tables import mean_by_seed
from surefoot.studies.contract import Analysis, Arm, Column, Published, Row, Size, Table
from surefoot.studies.runs import BySeed, Runs

RATES = {
    "gd": (2 / 70, 2 / 50, 2 / 40, 2 / 30),  # both ends as published
    "sgd": (0.02, 0.05, 0.1, 0.2),
    "adamw": (1e-4, 3e-4, 1e-3, 3e-3),
    "muon": (0.002, 0.005, 0.01, 0.02),
    "sam": (0.02, 0.05, 0.1, 0.2),
}
NAMES = {"gd": "GD", "sgd": "SGD", "adamw": "AdamW", "muon": "Muon", "sam": "SAM"}
PLAIN = "momentum=0,weight_decay=0"
OPTIONS = {
    "gd": "",
    "sgd": f",{PLAIN}",
    "adamw": ",weight_decay=0",
    "muon": ",precision=float32",
    "sam": f",rho=0.05,{PLAIN}",
}
# On a laptop: until most runs have fitted the training set. What rises first and falls then is not seen before.
STEPS = {"gd": 1600, "sgd": 4000, "adamw": 2400, "muon": 1200, "sam": 4000}
MOMENTS = 80  # of a run on a laptop at which everything is measured
# Examples for quality, and those of the training and of the test split for sharpness. It is too high on a probe (of
# 1,000 by 8 % halfway through GD), which matters where it is held against 2/η and less where it is correlated.
SEEN: dict[Size, int] = {"smoke": 500, "laptop": 2000, "paper": 5000}
PROBES: dict[Size, tuple[int, int]] = {"smoke": (32, 32), "laptop": (1000, 1000), "paper": (5000, 5000)}
FITTED = 0.99  # train accuracy
STRONG = 0.5  # r that is worth to be called a coupling
TRAIN, TEST = "gn_sharpness/value", "sharpness_on_test/value"
HORIZONS = (0.25, 0.5)  # shares of a run, beside the whole of it
UNKNOWN = "steps and most rates are ours: the paper does not give them"

BULK_RATE = 2 / 30
PROJECTED_STEPS = 20_000
RENEWED: dict[Size, int] = {"smoke": 10, "laptop": 100, "paper": 10}


def track(
    size: Size, steps: int, *, more: str = "", probes: tuple[int, int] | None = None, moments: int = MOMENTS
) -> str:
    """Say what to measure along training, and how often."""
    every = {"smoke": 4, "laptop": max(1, steps // moments), "paper": 100}[size]
    seen = ",".join(f"{name}:every={every},examples={SEEN[size]}" for name in ("quality", "margins"))
    names = ("gn_sharpness", "sharpness_on_test")
    pairs = zip(names, probes or PROBES[size], strict=True)
    sharpness = ",".join(f"{name}:every={every},examples={examples}" for name, examples in pairs)
    return ",".join(filter(None, (seen, sharpness, more)))


def label(optimizer: str, lr: float) -> str:
    """Name an arm."""
    return f"{optimizer}, η = {lr:.3g}"


def coupled(
    optimizer: str,
    lr: float,
    size: Size,
    *,
    loss: str = "",
    more: str = "",
    classes: int = 10,
    steps: int | None = None,
    probes: tuple[int, int] | None = None,
    moments: int = MOMENTS,
) -> Arm:
    """Make the arm of an optimizer at a learning rate; see :func:`track`."""
    full, steps = optimizer == "gd", steps or STEPS[optimizer]
    method = f"{optimizer}:lr={lr:.6g}{OPTIONS[optimizer]}"
    method = f"{loss} + {method}" if loss else method
    seen = track(size, steps, more=more, probes=probes, moments=moments)
    return moving(method, size, steps=steps, full_batch=full, track=seen, classes=classes)


def projected(k: int, size: Size) -> Arm:
    """Make the arm of BulkSGD without its top k directions; k = 0 is SGD for as many steps.

    Each basis takes dozens of products with the Hessian of all training examples, so a laptop renews it seldom.
    """
    options = f"lr={BULK_RATE:.6g},{PLAIN}"
    method = f"bulk_sgd:k={k},r={RENEWED[size]},{options}" if k else f"sgd:{options}"
    return moving(method, size, steps=PROJECTED_STEPS, track=track(size, PROJECTED_STEPS))


def all_coupled(size: Size, optimizers: tuple[str, ...] = tuple(RATES)) -> dict[str, Arm]:
    """Make all arms; the smoke size has two rates of each."""
    every = [(name, lr) for name in optimizers for lr in rates(name, size)]
    return {label(name, lr): coupled(name, lr, size) for name, lr in every}


def rates(optimizer: str, size: Size) -> tuple[float, ...]:
    """Return the learning rates of an optimizer."""
    return RATES[optimizer][1:3] if size == "smoke" else RATES[optimizer]


def arms_of(runs: Runs, optimizer: str) -> list[str]:
    """List an optimizer's arms, smallest rate first."""
    return [arm for arm in runs.found if arm.partition(",")[0] == optimizer]


def over_rates(arms: Sequence[str], value: Callable[[str], BySeed]) -> BySeed:
    """Average over learning rates, by seed: rates are chosen, seeds are drawn, so only they tell how sure a mean is.

    Args:
        arms: One per rate.
        value: Of an arm, by seed.

    Returns:
        Those seeds that have a value at every rate.
    """
    return mean_by_seed([value(arm) for arm in arms])


def summary_of(runs: Runs, arm: str, key: str, summary: Callable[[list[float]], float]) -> BySeed:
    """Summarise a tracked quantity of every run of an arm, by seed."""
    found = {seed: [values[0] for values in steps.values()] for seed, steps in runs.series(arm, key).items()}
    return {seed: summary(values) for seed, values in found.items() if len(values) > 1}


Moments = list[tuple[float, ...]]  # error, sharpness and train accuracy at each
# How r is taken: of which error and which sharpness, and over which moments of a run.
Reading = tuple[str, str, Callable[[Moments], Moments]]


def _whole(moments: Moments) -> Moments:
    return moments


def _first(share: float) -> Callable[[Moments], Moments]:
    return lambda moments: moments[: math.ceil(share * len(moments))]


def _fitted_at(moments: Moments) -> int:
    """Return the place of the first moment at which the training set is fitted; the end where it never is."""
    return next((place for place, values in enumerate(moments) if values[2] >= FITTED), len(moments))


def _before(moments: Moments) -> Moments:
    return moments[: _fitted_at(moments)]


def _after(moments: Moments) -> Moments:
    return moments[_fitted_at(moments) :]


def _changes(moments: Moments) -> Moments:
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(moments)]


READINGS: dict[str, Reading] = {
    "train ECE": ("train/ece", TRAIN, _whole),
    "train KCE": ("train/kce", TRAIN, _whole),
    "test ECE": ("test/ece", TEST, _whole),
    "test KCE": ("test/kce", TEST, _whole),
    "test ECE and train sharpness": ("test/ece", TRAIN, _whole),
    "train ECE, before 99 % train accuracy": ("train/ece", TRAIN, _before),
    "train ECE, after it": ("train/ece", TRAIN, _after),
    "train ECE, changes from moment to moment": ("train/ece", TRAIN, _changes),
    **{f"train ECE, first {100 * part:g} % of the steps": ("train/ece", TRAIN, _first(part)) for part in HORIZONS},
}


def correlate(runs: Runs, published: Published, names: Mapping[str, str] = NAMES) -> Analysis:
    """Correlate calibration error and sharpness over each run: mean ± sd over rates, and over parts of it.

    Args:
        runs: Runs of :func:`coupled`.
        published: What was printed for the first of ``READINGS``; may lack some or all.
        names: The optimizers, and what they are called.

    Returns:
        The table, and for train and test ECE the mean r over rates of each optimizer, over seeds.
    """
    rows = [
        Row(name, published.get(name, {}), {optimizer: _spread(runs, optimizer, reading) for optimizer in names})
        for name, reading in READINGS.items()
    ]
    numbers: dict[str, Estimate] = {}
    for name in ("train ECE", "test ECE", "train ECE, before 99 % train accuracy", "train ECE, after it"):
        for optimizer, title in names.items():
            found = _by_seed(runs, optimizer, READINGS[name])
            numbers[f"r of {name} and sharpness, {title}"] = mean(list(found.values()))
    every = mean_by_seed([_by_seed(runs, optimizer, READINGS["train ECE"]) for optimizer in names])
    if every:  # seeds that all of them have
        numbers["r of train ECE and sharpness, mean of the optimizers"] = mean(list(every.values()))
    return Analysis(Table(tuple(Column(key, f"r, {name}") for key, name in names.items()), tuple(rows)), numbers)


def _spread(runs: Runs, optimizer: str, reading: Reading) -> Spread:
    """Average r over seeds at each rate, then mean ± sd over rates."""
    return spread(statistics.fmean(values.values()) for values in _by_rate(runs, optimizer, reading))


def _by_seed(runs: Runs, optimizer: str, reading: Reading) -> BySeed:
    """Average r over rates."""
    return mean_by_seed(_by_rate(runs, optimizer, reading))


def _by_rate(runs: Runs, optimizer: str, reading: Reading) -> list[BySeed]:
    """Return r at each rate; one at which a seed has too few such moments is left out."""
    found = [_r(runs, arm, reading) for arm in arms_of(runs, optimizer)]
    most = max(map(len, found), default=0)
    return [values for values in found if len(values) == most > 0]


def _r(runs: Runs, arm: str, reading: Reading) -> BySeed:
    error, sharpness, part = reading
    every = runs.series(arm, error, sharpness, "train/accuracy")
    found = {seed: correlation(at[:2] for at in part(list(steps.values()))) for seed, steps in every.items()}
    return {seed: r for seed, r in found.items() if math.isfinite(r)}
