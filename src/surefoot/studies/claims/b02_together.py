"""B2: ECE and sharpness start small, rise into the edge of stability, peak together and fall together."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean, spread
from surefoot.studies._arms import FRESH_SEED
from surefoot.studies._coupling import FITTED, PROBES, UNKNOWN, all_coupled, arms_of, coupled, label, over_rates, rates
from surefoot.studies._rules import WHOLE
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, below, together

COLUMNS = (
    Column("edge", "plateau of sharpness / (2/η)"),
    Column("rise", "peak train ECE − first", digits=3),
    Column("apart", "peaks apart, % of the run", percent=True, digits=0),
    Column("fall_ece", "last / peak train ECE"),
    Column("fall_sharpness", "last / peak sharpness"),
    Column("fitted", "last train accuracy %", percent=True, digits=1),
)
EDGE = (0.8, 1.25)
REACHED = 0.8  # of 2/η, from where on sharpness is on its plateau
APART = 0.2
# GD on a laptop: until the smallest rate has fitted the training set too; sharpness on all of it, at fewer moments.
STEPS, MOMENTS = 2000, 40
WHOLE_PROBES: dict[Size, tuple[int, int]] = {**PROBES, "laptop": (5000, 1000)}


def grid(size: Size) -> dict[str, Arm]:
    """GD and SGD at four learning rates."""
    probes = WHOLE_PROBES[size]
    gd = {
        label("gd", lr): coupled("gd", lr, size, steps=STEPS, probes=probes, moments=MOMENTS)
        for lr in rates("gd", size)
    }
    return {**gd, **all_coupled(size, ("sgd",))}


def analyse(runs: Runs) -> Analysis:
    """Describe every run by its plateau and its peaks."""
    found = {arm: _of_arm(runs, arm) for arm in runs.found}
    rows = [
        Row(arm, measured={c.key: spread({s: v[c.key] for s, v in by_seed.items() if c.key in v}) for c in COLUMNS})
        for arm, by_seed in found.items()
    ]
    both = list(runs.found)
    fitted = [arm for arm in both if found[arm] and all(v["fitted"] >= FITTED for v in found[arm].values())]

    def over(arms: list[str], key: str) -> Estimate:
        values = over_rates(arms, lambda arm: {s: v[key] for s, v in found[arm].items() if key in v})
        return mean(list(values.values()))

    on_plateau = [arm for arm in arms_of(runs, "gd") if any("edge" in values for values in found[arm].values())]
    numbers = {
        "rise of train ECE to its peak": over(both, "rise"),
        "GD's plateau of sharpness / (2/η)": over(on_plateau, "edge"),
        "distance of the peaks, share of the run": over(both, "apart"),
        "last / peak train ECE, fitted rates": over(fitted, "fall_ece"),
        "last / peak sharpness, fitted rates": over(fitted, "fall_sharpness"),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _of_arm(runs: Runs, arm: str) -> dict[int, dict[str, float]]:
    keys = ("train/ece", "gn_sharpness/value", "gn_sharpness/two_over_lr", "train/accuracy")
    return {seed: _of_run(steps) for seed, steps in runs.series(arm, *keys).items() if len(steps) > 2}


def _of_run(steps: Mapping[int, tuple[float, ...]]) -> dict[str, float]:
    """Return peaks and falls; the plateau is the median from where 2/η is nearly reached until all is fitted."""
    at = list(steps)
    ece, sharpness, limit, accuracy = (list(values) for values in zip(*steps.values(), strict=True))
    top, sharpest = ece.index(max(ece)), sharpness.index(max(sharpness))
    begin = next((i for i in range(1, len(at)) if sharpness[i] >= REACHED * limit[i]), len(at))
    end = next((i for i in range(begin, len(at)) if accuracy[i] >= FITTED), len(at))
    plateau = [sharpness[i] / limit[i] for i in range(begin, end)]
    return {
        **({"edge": statistics.median(plateau)} if plateau else {}),
        "rise": max(ece) - ece[0],
        "apart": abs(at[top] - at[sharpest]) / max(at[-1], 1),
        "fall_ece": ece[-1] / max(ece),
        "fall_sharpness": sharpness[-1] / max(sharpness),
        "fitted": accuracy[-1],
    }


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for the rise, the edge, the common peak and the fall."""
    rise, edge, apart, fall, flatter = numbers.values()
    return together([
        above(rise, 0, "the rise of train ECE to its peak"),
        above(edge, EDGE[0], "GD's plateau of sharpness / (2/η)"),
        below(edge, EDGE[1], "GD's plateau of sharpness / (2/η)"),
        below(apart, APART, "the distance of the peaks, as a share of the run,"),
        below(fall, 0.5, "last / peak train ECE at fitted rates"),
        below(flatter, 0.5, "last / peak sharpness at fitted rates"),
    ])


@STUDIES.register("b2")
def b2() -> Study:
    """ECE and sharpness rise into the edge of stability, peak together and fall together."""
    return Study(
        question="Do train ECE and sharpness rise to the edge of stability, peak together and fall together?",
        published={},
        source="Too Sharp, Too Sure, fig. 1 and A1–A14 (curves; GD at rates from 2/70 to 2/30)",
        rule="Each is a mean over four learning rates of GD and of SGD, with its 95 % interval over seeds. Held if "
        f"train ECE rises to its peak, GD's sharpness on all training examples is between {EDGE[0]:g} and {EDGE[1]:g} "
        f"times 2/η on its plateau (the median from where it first reaches {REACHED:g} of it until the training set is "
        f"fitted, at the rates that get there), the peaks of ECE and sharpness lie less than {APART:.0%} of the run "
        f"apart, and at rates where all seeds fit the training set ({FITTED:.0%}) both end below half their peak.",
        fixed=WHOLE,
        differs=UNKNOWN,
        headline=Headline("distance of the peaks, share of the run", limit=APART, is_lower=True, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FRESH_SEED,
        drawings=(Drawing("dynamics", "gd"), Drawing("dynamics", "sgd"), Drawing("phase")),
    )
