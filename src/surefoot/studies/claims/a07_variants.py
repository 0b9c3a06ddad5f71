"""A7: other sharpness-aware optimizers calibrate too."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ACCURACY, ECE, TCE, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Runs, Size, Study, Verdict
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "sgd": {"accuracy": 94.26, "ece": 3.52},
    "sam": {"accuracy": 94.50, "ece": 1.83},
    "asam": {"accuracy": 94.82, "ece": 2.03},
    "vasso": {"accuracy": 94.70, "ece": 1.75},
    "csam": {"accuracy": 94.58, "ece": 1.47},
}
NAMES = (*PUBLISHED, "ssam")
ASAM_SCALE = 10  # its radius is relative to the weights: ten times SAM's is usual


def grid(size: Size) -> dict[str, Arm]:
    """The five rows of the table, and Stable SAM."""
    rho = RHO[size]
    methods = {name: f"{name}:rho={rho}" for name in NAMES} | {"sgd": "sgd", "asam": f"asam:rho={ASAM_SCALE * rho}"}
    return {name: finished(method, size) for name, method in methods.items()}


def analyse(runs: Runs) -> Analysis:
    """Compare each with SGD."""
    eces = {name: runs.measure(name, "ece") for name in NAMES}
    numbers = {f"ECE of SGD − ECE of {name}": difference(eces["sgd"], eces[name]) for name in NAMES if name != "sgd"}
    return Analysis(metrics_table(runs, (ACCURACY, ECE, TCE), PUBLISHED, {n: n for n in NAMES}), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for each below SGD."""
    return together([above(number, 0, name) for name, number in numbers.items()])


@STUDIES.register("a7")
def a7() -> Study:
    """Other SAM variants calibrate too: ASAM, VASSO, CSAM, Stable SAM."""
    return Study(
        question="Are ASAM, VASSO and Stable SAM better calibrated than SGD as well?",
        published=PUBLISHED,
        source="CSAM paper, table S11 (CIFAR-10, ResNet-56)",
        rule="Held if ECE(SGD) − ECE(variant), paired by seed, is above 0 with its 95 % interval for SAM, ASAM, VASSO, "
        "CSAM and Stable SAM; did not hold if it is below 0 with its interval for one of them; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_bars"),),
    )
