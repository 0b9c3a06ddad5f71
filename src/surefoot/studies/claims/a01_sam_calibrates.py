"""A1: SAM is better calibrated than SGD, before any post-hoc step."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, ratio, spread
from surefoot.studies._arms import RHO, finished
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above

ECES = {  # in percent: SGD, SAM
    "CIFAR-10, ResNet-56": (3.89, 0.64),
    "CIFAR-10, WRN-28-10": (2.36, 0.86),
    "CIFAR-10, PyramidNet-110": (2.54, 0.74),
    "CIFAR-100, ResNet-56": (13.29, 1.66),
    "CIFAR-100, WRN-28-10": (3.95, 2.11),
    "CIFAR-100, PyramidNet-110": (9.52, 1.91),
    "Tiny-ImageNet, ResNet-18": (7.65, 3.46),
}
PUBLISHED = {where: {"sgd": sgd, "sam": sam, "ratio": round(sgd / sam, 2)} for where, (sgd, sam) in ECES.items()}
COLUMNS = (
    Column("sgd", "ECE % of SGD", percent=True),
    Column("sam", "ECE % of SAM", percent=True),
    Column("ratio", "ratio"),
    Column("sgd_accuracy", "accuracy % of SGD", percent=True),
    Column("sam_accuracy", "accuracy % of SAM", percent=True),
)


def grid(size: Size) -> dict[str, Arm]:
    """SGD and SAM, everything else equal."""
    return {"sgd": finished("sgd", size), "sam": finished(f"sam:rho={RHO[size]}", size)}


def analyse(runs: Runs) -> Analysis:
    """Return ECE of both, and their ratio with its bootstrap interval over seeds."""
    sgd, sam = runs.measure("sgd", "ece"), runs.measure("sam", "ece")
    measured = {
        "sgd": spread(sgd),
        "sam": spread(sam),
        "ratio": spread({seed: sgd[seed] / sam[seed] for seed in sgd if sam.get(seed)}),
        "sgd_accuracy": spread(runs.measure("sgd", "accuracy")),
        "sam_accuracy": spread(runs.measure("sam", "accuracy")),
    }
    rows = [Row("here", measured=measured), *(Row(where, values) for where, values in PUBLISHED.items())]
    return Analysis(Table(COLUMNS, tuple(rows)), {"ECE ratio SGD/SAM": ratio(sgd, sam)})


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for the whole interval of the ratio above 1."""
    return above(numbers["ECE ratio SGD/SAM"], 1, "ECE(SGD)/ECE(SAM)")


@STUDIES.register("a1")
def a1() -> Study:
    """SAM is better calibrated than SGD, before any post-hoc step."""
    return Study(
        question="Is a network trained with SAM better calibrated than one trained with SGD, with nothing done after?",
        published=PUBLISHED,
        source="CSAM paper, results on CIFAR and Tiny-ImageNet",
        rule="Held if the 95 % bootstrap interval over seeds of ECE(SGD)/ECE(SAM) lies above 1; did not hold if it "
        "lies below 1; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
