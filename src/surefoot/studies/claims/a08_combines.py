"""A8: SAM and CSAM combine with other losses."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean
from surefoot.studies._arms import FRESH_SEED, tuned
from surefoot.studies._rules import AGAIN, third
from surefoot.studies._tables import (
    ACCURACY,
    ECE,
    TCE,
    difference_by_seed,
    ece_gap,
    ece_of,
    mean_by_seed,
    metrics_table,
)
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "focal": {"accuracy": 71.96, "ece": 8.25, "tce": 3.27},
    "focal + sam": {"accuracy": 73.11, "ece": 6.90, "tce": 1.90},
    "focal + csam": {"accuracy": 73.51, "ece": 3.94, "tce": 1.58},
    "acls": {"accuracy": 72.55, "ece": 5.88, "tce": 3.29},
    "acls + sam": {"accuracy": 74.53, "ece": 1.37, "tce": 1.27},
    "acls + csam": {"accuracy": 74.86, "ece": 1.01, "tce": 0.85},
}
LOSSES = ("focal", "acls")
STEPS = tuple((loss + first, loss + then) for first, then in (("", " + sam"), (" + sam", " + csam")) for loss in LOSSES)


def grid(size: Size) -> dict[str, Arm]:
    """Two losses, each with SGD, SAM and CSAM."""
    return tuned(PUBLISHED, size, on="colours")


def analyse(runs: Runs) -> Analysis:
    """Compare each step of loss → loss + SAM → loss + CSAM."""
    chosen = runs.tuned()
    numbers = {f"ECE of {a} − {b}": ece_gap(chosen, a, b) for a, b in STEPS}
    falls = [difference_by_seed(ece_of(chosen, loss), ece_of(chosen, f"{loss} + csam")) for loss in LOSSES]
    numbers["ECE of loss − loss + csam, mean of both losses"] = mean(list(mean_by_seed(falls).values()))
    table = metrics_table(chosen, (ACCURACY, ECE, TCE), PUBLISHED, {name: name for name in PUBLISHED})
    return Analysis(table, numbers, chosen)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for each step downward."""
    gaps = {f"ECE of {a} − {b}": PUBLISHED[a]["ece"] - PUBLISHED[b]["ece"] for a, b in STEPS}
    return together([above(numbers[name], 0, name, enough=third(gap)) for name, gap in gaps.items()])


@STUDIES.register("a8")
def a8() -> Study:
    """SAM and CSAM lower the ECE of focal loss and ACLS further."""
    return Study(
        question="Do SAM and then CSAM lower the ECE of focal loss and of ACLS further?",
        published=PUBLISHED,
        source="CSAM paper (CIFAR-100, ResNet-56)",
        rule="Tuned as in A5, six settings each: the loss alone over its own option, with SAM and CSAM over theirs "
        "and the loss as it is usual. Held if for both losses debiased ECE falls from the loss alone to the loss with "
        "SAM to the loss with CSAM, each paired difference above 0 with its 95 % interval; where one is not, an "
        "interval below a third of the published difference counts against it. Judged on ten seeds, for with five "
        "others one difference of four was not clear.",
        fixed=AGAIN,
        differs="a perceptron on 5,000 pictures of CIFAR-10",
        headline=Headline("ECE of loss − loss + csam, mean of both losses", published=0.0459, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 10, "paper": 5},
        first_seed=FRESH_SEED,
        drawings=(Drawing("ece_bars"),),
    )
