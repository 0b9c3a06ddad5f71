"""A1: SAM is better calibrated than SGD, before any post-hoc step."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, Spread, spread
from surefoot.studies._arms import AUTO, DEEP, LATER_SEED, residual, tuned, tuning_themselves
from surefoot.studies._rules import LONGER, third
from surefoot.studies._tables import ece_gap
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

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
GAP = 3.25  # of the first
PLACES = {"": "perceptron, clothes", DEEP: "ResNet-8, CIFAR-10"}
KEYS = ("sgd", "sam", "csam auto", "csam auto, every 4th")
COLUMNS = (
    *(Column(key, f"ECE % of {key}", percent=True) for key in KEYS),
    Column("ratio", "ECE of sgd / sam"),
    *(Column(f"{key}/accuracy", f"accuracy % of {key}", percent=True) for key in KEYS),
)


def grid(size: Size) -> dict[str, Arm]:
    """SGD and SAM with as many settings each, and CSAM that tunes itself; on a perceptron and a residual network."""
    methods = ("sgd", "sam")
    return {**tuned(methods, size), **tuning_themselves(size), **residual((*methods, *AUTO), size)}


def analyse(runs: Runs) -> Analysis:
    """Return ECE of all, and how much lower SAM's is."""
    chosen = runs.tuned()
    rows = [Row(place, measured=_row(chosen, where)) for where, place in PLACES.items()]
    rows += [Row(where, values) for where, values in PUBLISHED.items()]
    numbers = {f"ECE of SGD − SAM, {place}": ece_gap(chosen, f"sgd{at}", f"sam{at}") for at, place in PLACES.items()}
    return Analysis(Table(COLUMNS, tuple(rows)), numbers, chosen)


def _row(chosen: Runs, where: str) -> dict[str, Spread]:
    eces = {key: chosen.measure(f"{key}{where}", "ece") for key in KEYS}
    return {
        **{key: spread(eces[key]) for key in KEYS},
        "ratio": spread({seed: eces["sgd"][seed] / ece for seed, ece in eces["sam"].items() if seed in eces["sgd"]}),
        **{f"{key}/accuracy": spread(chosen.measure(f"{key}{where}", "accuracy")) for key in KEYS},
    }


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for both differences above 0."""
    return together([above(number, 0, name, enough=third(GAP)) for name, number in numbers.items()])


@STUDIES.register("a1")
def a1() -> Study:
    """SAM is better calibrated than SGD, before any post-hoc step."""
    return Study(
        question="Is a network trained with SAM better calibrated than one trained with SGD, with nothing done after?",
        published=PUBLISHED,
        source="CSAM paper, table S7 (CIFAR and Tiny-ImageNet)",
        rule="Both are tuned by the mean NLL of all seeds on the calibration split: over six settings each on the "
        "perceptron (SGD: three learning rates, SAM: three radii; each at two weight decays), over two on ResNet-8 "
        "(two learning rates, two radii; both at the larger weight decay). Held if debiased ECE(SGD) − ECE(SAM) on "
        "test, paired by seed, is above 0 with its 95 % interval on both networks; where it is not, an interval below "
        "a third of the published 3.25 points counts against it. CSAM that tunes itself is shown, not judged.",
        fixed=LONGER,
        differs="small networks, thousands of pictures",
        headline=Headline(f"ECE of SGD − SAM, {PLACES[DEEP]}", published=GAP / 100, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=LATER_SEED,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
