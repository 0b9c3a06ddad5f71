"""A6: SAM and CSAM against losses made for calibration."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ACCURACY, ECE, TCE, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Runs, Size, Study, Verdict
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "sgd": {"accuracy": 72.30, "ece": 13.03},
    "label_smoothing": {"accuracy": 72.54, "ece": 4.38},
    "acls": {"accuracy": 72.49, "ece": 2.32},
    "crl": {"accuracy": 72.36, "ece": 3.43},
    "cpc": {"accuracy": 72.45, "ece": 2.62},
    "mbls": {"accuracy": 72.42, "ece": 2.33},
    "mdca": {"accuracy": 72.38, "ece": 3.16},
    "sam": {"accuracy": 74.63, "ece": 1.87},
    "csam": {"accuracy": 74.98, "ece": 1.25},
}
LOSSES = ("label_smoothing", "acls", "crl", "cpc", "mbls", "mdca")


def grid(size: Size) -> dict[str, Arm]:
    """The nine rows of the table."""
    radius = {"sam": f"sam:rho={RHO[size]}", "csam": f"csam:rho={RHO[size]}"}
    return {name: finished(radius.get(name, name), size, classes=100) for name in PUBLISHED}


def analyse(runs: Runs) -> Analysis:
    """Compare CSAM, and SAM, with each loss."""
    eces = {name: runs.measure(name, "ece") for name in PUBLISHED}
    numbers = {
        f"ECE of {loss} − ECE of {method}": difference(eces[loss], eces[method])
        for method in ("csam", "sam")
        for loss in LOSSES
    }
    return Analysis(metrics_table(runs, (ACCURACY, ECE, TCE), PUBLISHED, {n: n for n in PUBLISHED}), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for CSAM below every loss; SAM's numbers are shown beside it."""
    return together([above(number, 0, name) for name, number in numbers.items() if name.endswith("of csam")])


@STUDIES.register("a6")
def a6() -> Study:
    """CSAM has a lower ECE than losses made for calibration."""
    return Study(
        question="Is CSAM better calibrated than six losses made for calibration?",
        published=PUBLISHED,
        source="CSAM paper, table S13 (CIFAR-100, ResNet-56)",
        rule="Held if ECE(loss) − ECE(CSAM), paired by seed, is above 0 with its 95 % interval for each of the six "
        "losses, all at their published settings; did not hold if it is below 0 with its interval for one of them.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        drawings=(Drawing("ece_bars"),),
    )
