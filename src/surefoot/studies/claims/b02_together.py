"""B2: ECE and sharpness start small, rise into the edge of stability, peak together and fall together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean, spread
from surefoot.studies._coupling import all_coupled, arms_of
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above, below, together, true_if

COLUMNS = (
    Column("edge", "peak sharpness / (2/η)"),
    Column("rise", "peak train ECE − first", digits=3),
    Column("apart", "peaks apart, % of the run", percent=True, digits=0),
    Column("fall_ece", "last / peak train ECE"),
    Column("fall_sharpness", "last / peak sharpness"),
    Column("fitted", "last train accuracy %", percent=True, digits=1),
)
EDGE = (0.8, 2.0)
APART = 0.2
FITTED = 0.99


def grid(size: Size) -> dict[str, Arm]:
    """GD and SGD at four learning rates."""
    return all_coupled(size, ("gd", "sgd"))


def analyse(runs: Runs) -> Analysis:
    """Describe every run by its peaks."""
    found = {arm: {seed: _peaks(steps) for seed, steps in _series(runs, arm).items()} for arm in runs.found}
    rows = [
        Row(arm, measured={c.key: spread({s: v[c.key] for s, v in by_seed.items()}) for c in COLUMNS})
        for arm, by_seed in found.items()
    ]
    every = [values for by_seed in found.values() for values in by_seed.values()]
    gd = [values for arm in arms_of(runs, "gd") for values in found[arm].values()]
    fitted = [values for values in every if values["fitted"] >= FITTED]
    edge = statistics.median(values["edge"] for values in gd) if gd else math.nan
    numbers = {
        "rise of train ECE to its peak": mean([values["rise"] for values in every]),
        "median of peak sharpness / (2/η), GD": Estimate(edge, n=len(gd)),
        "distance of the peaks, share of the run": mean([values["apart"] for values in every]),
        "last / peak train ECE, fitted runs": mean([v["fall_ece"] for v in fitted]),
        "last / peak sharpness, fitted runs": mean([v["fall_sharpness"] for v in fitted]),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _series(runs: Runs, arm: str) -> dict[int, dict[int, tuple[float, ...]]]:
    keys = ("train/ece", "gn_sharpness/value", "gn_sharpness/two_over_lr", "train/accuracy")
    return {seed: steps for seed, steps in runs.series(arm, *keys).items() if len(steps) > 2}


def _peaks(steps: Mapping[int, tuple[float, ...]]) -> dict[str, float]:
    at = list(steps)
    ece, sharpness, limit, accuracy = (list(values) for values in zip(*steps.values(), strict=True))
    top, sharpest = ece.index(max(ece)), sharpness.index(max(sharpness))
    return {
        "edge": max(sharpness) / limit[sharpest],
        "rise": max(ece) - ece[0],
        "apart": abs(at[top] - at[sharpest]) / max(at[-1], 1),
        "fall_ece": ece[-1] / max(ece),
        "fall_sharpness": sharpness[-1] / max(sharpness),
        "fitted": accuracy[-1],
    }


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for the rise, the edge, the common peak and the fall."""
    rise, edge, apart, fall, flatter = numbers.values()
    near = EDGE[0] <= edge.value <= EDGE[1] if edge.is_known and edge.n >= 3 else None
    return together([
        above(rise, 0, "the rise of train ECE to its peak"),
        true_if(near, f"GD's peak sharpness is {edge:.2f} times 2/η (median, n = {edge.n})"),
        below(apart, APART, "the distance of the peaks, as a share of the run,"),
        below(fall, 0.5, "last / peak train ECE of fitted runs"),
        below(flatter, 0.5, "last / peak sharpness of fitted runs"),
    ])


@STUDIES.register("b2")
def b2() -> Study:
    """ECE and sharpness rise into the edge of stability, peak together and fall together."""
    return Study(
        question="Do train ECE and sharpness rise to the edge of stability, peak together and fall together?",
        published={},
        source="Too Sharp, Too Sure, fig. 1 and A1–A14 (curves)",
        rule=f"Held if train ECE rises to its peak, GD's peak sharpness has a median between {EDGE[0]:g} and "
        f"{EDGE[1]:g} times 2/η, the two peaks lie less than {APART:.0%} of the run apart on average, and in runs that "
        f"fit the training set ({FITTED:.0%}) both end below half their peak, means with their 95 % intervals over "
        "runs; did not hold if one of these fails for certain; not resolved where too few runs fit the training set.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("dynamics", "gd"), Drawing("dynamics", "sgd"), Drawing("phase")),
    )
