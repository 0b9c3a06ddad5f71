"""A14: CSAM and SAM reach flatter minima."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, ratio, spread
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ACCURACY, ECE
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above, together

KAPPA = Column("kappa_max", "κ_max", digits=1)
PUBLISHED = {
    "sgd": {"kappa_max": 631.9},
    "label_smoothing": {"kappa_max": 583.7},
    "focal": {"kappa_max": 497.0},
    "sam": {"kappa_max": 178.0},
    "csam": {"kappa_max": 148.2},
}
ENDS = "kappa:every=1000000,examples=1000"  # the untrained and the finished network


def grid(size: Size) -> dict[str, Arm]:
    """The five rows of the table."""
    radius = {"sam": f"sam:rho={RHO[size]}", "csam": f"csam:rho={RHO[size]}"}
    return {name: finished(radius.get(name, name), size, classes=100, track=ENDS) for name in PUBLISHED}


def analyse(runs: Runs) -> Analysis:
    """Compare κ_max of the finished networks."""
    kappa = {name: runs.last(name, "kappa_max/value") for name in PUBLISHED}
    rows = [
        Row(
            name,
            PUBLISHED[name],
            {
                "kappa_max": spread(kappa[name]),
                "ece": spread(runs.measure(name, "ece")),
                "accuracy": spread(runs.measure(name, "accuracy")),
            },
        )
        for name in PUBLISHED
    ]
    numbers = {
        "κ_max of SGD / κ_max of SAM": ratio(kappa["sgd"], kappa["sam"]),
        "κ_max of SGD / κ_max of CSAM": ratio(kappa["sgd"], kappa["csam"]),
        "κ_max of SAM − κ_max of CSAM": difference(kappa["sam"], kappa["csam"]),
    }
    return Analysis(Table((KAPPA, ECE, ACCURACY), tuple(rows)), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for both ratios above 1, and CSAM below SAM."""
    sam, csam, gap = numbers.values()
    return together([
        above(sam, 1, "κ_max(SGD)/κ_max(SAM)"),
        above(csam, 1, "κ_max(SGD)/κ_max(CSAM)"),
        above(gap, 0, "κ_max(SAM) − κ_max(CSAM)"),
    ])


@STUDIES.register("a14")
def a14() -> Study:
    """CSAM and SAM reach flatter minima than SGD, CSAM the flattest."""
    return Study(
        question="Is the largest Hessian eigenvalue at the end smaller with SAM than with SGD, and with CSAM than SAM?",
        published=PUBLISHED,
        source="CSAM paper, table S16 (CIFAR-100, ResNet-56)",
        rule="Held if the bootstrap intervals of κ_max(SGD)/κ_max(SAM) and κ_max(SGD)/κ_max(CSAM) lie above 1 and the "
        "paired difference κ_max(SAM) − κ_max(CSAM) is above 0 with its 95 % interval; did not hold if one of the "
        "three lies on the other side with its interval; else not resolved. κ_max of cross-entropy on 1,000 examples.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_bars"),),
    )
