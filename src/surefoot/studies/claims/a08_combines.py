"""A8: SAM and CSAM combine with other losses."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ACCURACY, ECE, TCE, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Runs, Size, Study, Verdict
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "focal": {"accuracy": 71.96, "ece": 8.25, "tce": 3.27},
    "focal + sam": {"accuracy": 73.11, "ece": 6.90, "tce": 1.90},
    "focal + csam": {"accuracy": 73.51, "ece": 3.94, "tce": 1.58},
    "acls": {"accuracy": 72.55, "ece": 5.88, "tce": 3.29},
    "acls + sam": {"accuracy": 74.53, "ece": 1.37, "tce": 1.27},
    "acls + csam": {"accuracy": 74.86, "ece": 1.01, "tce": 0.85},
}


def grid(size: Size) -> dict[str, Arm]:
    """Two losses, each with SGD, SAM and CSAM."""
    return {
        name: finished(f"{name}:rho={RHO[size]}" if name.endswith("sam") else name, size, classes=100)
        for name in PUBLISHED
    }


def analyse(runs: Runs) -> Analysis:
    """Compare each step of loss → loss + SAM → loss + CSAM."""
    eces = {name: runs.measure(name, "ece") for name in PUBLISHED}
    steps = [(loss, f"{loss} + sam") for loss in ("focal", "acls")]
    steps += [(f"{loss} + sam", f"{loss} + csam") for loss in ("focal", "acls")]
    numbers = {f"ECE of {a} − ECE of {b}": difference(eces[a], eces[b]) for a, b in steps}
    return Analysis(metrics_table(runs, (ACCURACY, ECE, TCE), PUBLISHED, {n: n for n in PUBLISHED}), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for each step downward."""
    return together([above(number, 0, name) for name, number in numbers.items()])


@STUDIES.register("a8")
def a8() -> Study:
    """SAM and CSAM lower the ECE of focal loss and ACLS further."""
    return Study(
        question="Do SAM and then CSAM lower the ECE of focal loss and of ACLS further?",
        published=PUBLISHED,
        source="CSAM paper (CIFAR-100, ResNet-56)",
        rule="Held if for both losses ECE falls from the loss alone to the loss with SAM to the loss with CSAM, each "
        "paired difference above 0 with its 95 % interval; did not hold if one is below 0 with its interval.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_bars"),),
    )
