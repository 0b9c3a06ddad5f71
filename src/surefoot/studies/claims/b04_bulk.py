"""B4: BulkSGD oscillates, and its sharpness runs into the thousands."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from itertools import pairwise

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, spread
from surefoot.studies._coupling import BULK_RATES, label, projected
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above, together, true_if

PROJECTED: dict[Size, tuple[int, ...]] = {"smoke": (1, 5), "laptop": (1, 3, 5), "paper": (1, 3, 5)}
COLUMNS = (
    Column("sharpest", "largest sharpness", digits=0),
    Column("jump", "mean jump of log train loss", digits=3),
    Column("last", "last train ECE", digits=3),
)
THOUSANDS = 1000


def grid(size: Size) -> dict[str, Arm]:
    """SGD, and BulkSGD without its top 1, 3 and 5 directions, at the published rates and one between them."""
    arms = {}
    for lr in BULK_RATES:
        arms[label("sgd", lr)] = projected(0, lr, size)
        for k in PROJECTED[size]:
            name = "bulk_sgd" if k == 1 else f"bulk_sgd, k = {k}"
            arms[label(name, lr)] = projected(k, lr, size)
    return arms


def analyse(runs: Runs) -> Analysis:
    """Return the largest sharpness and how much the loss jumps between moments."""
    sharpest = {arm: _over(runs, arm, "gn_sharpness/value", max) for arm in runs.found}
    jumps = {arm: _over(runs, arm, "train/loss", _jump) for arm in runs.found}
    rows = [
        Row(
            arm,
            measured={
                "sharpest": spread(sharpest[arm]),
                "jump": spread(jumps[arm]),
                "last": spread(runs.last(arm, "train/ece")),
            },
        )
        for arm in runs.found
    ]
    plain, bulk = ([arm for arm in runs.found if arm.startswith(name)] for name in ("sgd", "bulk_sgd, k = 5"))
    every = [value for arm in runs.found if arm.startswith("bulk") for value in sharpest[arm].values()]
    numbers = {
        "largest sharpness of any BulkSGD run": Estimate(max(every, default=math.nan), n=len(every)),
        "jump of BulkSGD (k = 5) − SGD": difference(_pooled(jumps, bulk), _pooled(jumps, plain)),
        "largest sharpness of BulkSGD (k = 5) − SGD": difference(_pooled(sharpest, bulk), _pooled(sharpest, plain)),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _over(runs: Runs, arm: str, key: str, summary: Callable[[list[float]], float]) -> dict[int, float]:
    found = {seed: [values[0] for values in steps.values()] for seed, steps in runs.series(arm, key).items()}
    return {seed: summary(values) for seed, values in found.items() if len(values) > 1}


def _jump(losses: list[float]) -> float:
    logs = [math.log(max(loss, 1e-12)) for loss in losses]
    return statistics.fmean(abs(b - a) for a, b in pairwise(logs))


def _pooled(values: Mapping[str, Mapping[int, float]], arms: list[str]) -> dict[int, float]:
    return {1000 * rank + seed: value for rank, arm in enumerate(arms) for seed, value in values[arm].items()}


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for thousands, and for jumps beyond SGD's."""
    largest, jump, sharper = numbers.values()
    reached = largest.value >= THOUSANDS if largest.is_known and largest.n >= 3 else None
    return together([
        true_if(reached, f"the largest sharpness of any BulkSGD run is {largest:.0f}"),
        above(jump, 0, "jump of log train loss, BulkSGD (k = 5) − SGD,"),
        above(sharper, 0, "largest sharpness of BulkSGD (k = 5) − SGD"),
    ])


@STUDIES.register("b4")
def b4() -> Study:
    """BulkSGD oscillates and its sharpness runs into the thousands."""
    return Study(
        question="Does projecting out the top directions make training oscillate and sharpness run into the thousands?",
        published={"bulk_sgd (text)": {"sharpest": THOUSANDS}},
        source="Too Sharp, Too Sure, fig. 2 and app. C (100,000 steps)",
        rule=f"Held if some BulkSGD run reaches a sharpness of {THOUSANDS}, and with k = 5 both the mean jump of log "
        "train loss between moments and the largest sharpness exceed SGD's at the same rates, paired, with their 95 % "
        "intervals; did not hold if one of these fails for certain; else not resolved. A laptop makes few steps.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("dynamics"),),
    )
