"""A4: CSAM is better calibrated than SAM, and no less accurate."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ACCURACY, ECE, TCE, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Runs, Size, Study, Verdict
from surefoot.studies.verdicts import above, no_worse, together

PUBLISHED = {
    "sam, CIFAR-10, ResNet-56, ρ 0.05": {"ece": 1.83, "accuracy": 94.50},
    "csam, CIFAR-10, ResNet-56, ρ 0.05": {"ece": 1.47, "accuracy": 94.58},
    "sam, CIFAR-10, WRN-28-10": {"ece": 0.86, "accuracy": 96.91},
    "csam, CIFAR-10, WRN-28-10": {"ece": 0.50, "accuracy": 96.97},
    "sam, CIFAR-100, ResNet-56": {"ece": 1.59},
    "csam, CIFAR-100, ResNet-56": {"ece": 1.31},
}
TOLERANCE = 0.005  # half a point of accuracy


def grid(size: Size) -> dict[str, Arm]:
    """SAM and CSAM at the same radius; SGD for scale."""
    rho = RHO[size]
    methods = {"sgd": "sgd", "sam": f"sam:rho={rho}", "csam": f"csam:rho={rho}"}
    return {name: finished(method, size) for name, method in methods.items()}


def analyse(runs: Runs) -> Analysis:
    """Return paired differences in ECE and accuracy."""
    numbers = {
        "ECE of SAM − ECE of CSAM": difference(runs.measure("sam", "ece"), runs.measure("csam", "ece")),
        "accuracy of CSAM − accuracy of SAM": difference(
            runs.measure("csam", "accuracy"), runs.measure("sam", "accuracy")
        ),
    }
    names = {"sgd": "sgd", "sam": "sam", "csam": "csam"}
    return Analysis(metrics_table(runs, (ACCURACY, ECE, TCE), PUBLISHED, names), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for less ECE, and for accuracy that is not lost."""
    return together([
        above(numbers["ECE of SAM − ECE of CSAM"], 0, "ECE of SAM − ECE of CSAM"),
        no_worse(numbers["accuracy of CSAM − accuracy of SAM"], TOLERANCE, "accuracy of CSAM − accuracy of SAM"),
    ])


@STUDIES.register("a4")
def a4() -> Study:
    """CSAM is better calibrated than SAM, accuracy not hurt."""
    return Study(
        question="Is CSAM better calibrated than SAM at the same radius, without losing accuracy?",
        published=PUBLISHED,
        source="CSAM paper, CIFAR results",
        rule="Held if the paired difference ECE(SAM) − ECE(CSAM) is above 0 with its 95 % interval and the interval of "
        "accuracy(CSAM) − accuracy(SAM) lies above −0.5 points; did not hold if ECE rises, or accuracy falls by more "
        "than that, with its interval; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
