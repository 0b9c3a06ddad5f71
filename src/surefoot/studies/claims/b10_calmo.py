"""B10: CalMO lowers test ECE for every optimizer without hurting accuracy."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._arms import FRESH_SEED, RHO, finished
from surefoot.studies._rules import MIDWAY, third
from surefoot.studies._tables import ACCURACY, ECE, TCE, accuracy_gap, ece_gap, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, no_worse, together

PUBLISHED = {  # in percent here, as fractions there
    "ce + sgd": {"ece": 8.1},
    "calmo + sgd": {"ece": 5.6},
    "ce + adamw": {"ece": 6.1},
    "calmo + adamw": {"ece": 4.5},
    "ce + muon": {"ece": 6.5},
    "calmo + muon": {"ece": 1.9},
    "ce + sam": {"ece": 2.0},
    "calmo + sam": {"ece": 1.7},
}
OPTIMIZERS = ("sgd", "adamw", "muon", "sam")
LOSSES = {"ce": "", "calmo": "calmo", "flat": "calmo:robust=0", "rob": "calmo:smooth=0"}
TOLERANCE = 0.01


def grid(size: Size) -> dict[str, Arm]:
    """Four optimizers with cross-entropy, CalMO and its two ablations."""
    methods = {"sam": f"sam:rho={RHO[size]}", "muon": "muon:precision=float32"}
    return {
        f"{name} + {optimizer}": finished(" + ".join(filter(None, (loss, methods.get(optimizer, optimizer)))), size)
        for optimizer in OPTIMIZERS
        for name, loss in LOSSES.items()
    }


def analyse(runs: Runs) -> Analysis:
    """Compare CalMO with cross-entropy under each optimizer."""
    numbers = {}
    for optimizer in OPTIMIZERS:
        plain, calmo = f"ce + {optimizer}", f"calmo + {optimizer}"
        numbers[f"ECE, {plain} − {calmo}"] = ece_gap(runs, plain, calmo)
        numbers[f"accuracy, {calmo} − {plain}"] = accuracy_gap(runs, calmo, plain)
    return Analysis(metrics_table(runs, (ACCURACY, ECE, TCE), PUBLISHED, {a: a for a in runs.found}), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for less ECE, and for accuracy that is not lost."""
    parts = []
    for optimizer in OPTIMIZERS:
        plain, calmo = f"ce + {optimizer}", f"calmo + {optimizer}"
        ece, accuracy = f"ECE, {plain} − {calmo}", f"accuracy, {calmo} − {plain}"
        gap = PUBLISHED[plain]["ece"] - PUBLISHED[calmo]["ece"]
        parts += [above(numbers[ece], 0, ece, enough=third(gap)), no_worse(numbers[accuracy], TOLERANCE, accuracy)]
    return together(parts)


@STUDIES.register("b10")
def b10() -> Study:
    """CalMO lowers test ECE for every optimizer without hurting accuracy."""
    return Study(
        question="Does CalMO lower test ECE under SGD, AdamW, Muon and SAM without hurting accuracy?",
        published=PUBLISHED,
        source="first version of Too Sharp, Too Sure (CIFAR-10, ResNet-20)",
        rule="Held if for each of the four optimizers debiased ECE(cross-entropy) − ECE(CalMO), paired by seed, is "
        "above 0 with its 95 % interval and the interval of the change in accuracy lies above −1 point; where the "
        "first is not, an interval below a third of the published difference counts against it.",
        fixed=MIDWAY,
        differs="a small network on clothes",
        headline=Headline("ECE, ce + sgd − calmo + sgd", published=0.025, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FRESH_SEED,
        drawings=(Drawing("ece_bars"),),
    )
