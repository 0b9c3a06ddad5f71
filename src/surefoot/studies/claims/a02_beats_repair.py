"""A2: SAM with nothing done after is better calibrated than SGD behind a calibrator."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, spread
from surefoot.studies._arms import DEEP, LATER_SEED, residual, tuned
from surefoot.studies._rules import HALF_A_POINT, LONGER
from surefoot.studies._tables import ACCURACY, ECE, ece_of
from surefoot.studies.claims.a01_sam_calibrates import PLACES
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

REPAIRS = ("temperature", "isotonic")
PRINTED = {  # in percent: SGD behind a temperature, SAM with nothing done
    "CIFAR-10, ResNet-56 (table S11)": (1.03, 1.83),
    "CIFAR-10, WRN-28-10 (table 3)": (1.06, 0.86),
    "CIFAR-100, ResNet-56 (table S12)": (1.64, 1.59),
    "CIFAR-100, WRN-28-10 (table S5)": (3.38, 2.11),
    "ImageNet, ResNet-50 (table 2)": (1.80, 1.52),
    "ImageNet, ViT-S/32 (table 2)": (2.63, 3.04),
    "ImageNet, ViT-S/16 (table 2)": (3.66, 1.76),
}
PUBLISHED = {
    f"{method}, {where}": {"ece": ece}
    for where, pair in PRINTED.items()
    for method, ece in zip(("sgd, temperature", "sam, nothing done"), pair, strict=True)
}


def grid(size: Size) -> dict[str, Arm]:
    """SGD, SAM and CSAM, tuned."""
    methods = ("sgd", "sam", "csam")
    return {**tuned(methods, size), **residual(methods, size)}


def analyse(runs: Runs) -> Analysis:
    """Compare raw ECE with SGD's behind each calibrator, fitted on the calibration split."""
    chosen = runs.tuned()
    rows, numbers = [], {}
    for at, place in PLACES.items():
        accuracy = {method: spread(chosen.measure(f"{method}{at}", "accuracy")) for method in ("sgd", "sam", "csam")}
        for method, values in accuracy.items():
            ece = spread(chosen.measure(f"{method}{at}", "ece"))
            rows.append(Row(f"{method}, nothing done, {place}", measured={"ece": ece, "accuracy": values}))
        for name in REPAIRS:
            ece = spread(chosen.measure(f"sgd{at}", "ece", calibrator=name))
            rows.append(Row(f"sgd, {name}, {place}", measured={"ece": ece, "accuracy": accuracy["sgd"]}))
            for method in ("sam", "csam"):
                gap = difference(ece_of(chosen, f"sgd{at}", name), ece_of(chosen, f"{method}{at}"))
                numbers[f"ECE of SGD behind {name} − {method.upper()}, {place}"] = gap
    rows += [Row(label, values) for label, values in PUBLISHED.items()]
    return Analysis(Table((ACCURACY, ECE), tuple(rows)), numbers, chosen)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for SAM below SGD behind both; CSAM is shown."""
    judged = {name: number for name, number in numbers.items() if "− SAM" in name}
    return together([above(number, 0, name, enough=HALF_A_POINT) for name, number in judged.items()])


@STUDIES.register("a2")
def a2() -> Study:
    """SAM uncalibrated is better than SGD after temperature scaling or isotonic regression."""
    return Study(
        question="Is SAM with nothing done after better calibrated than SGD behind temperature or isotonic scaling?",
        published=PUBLISHED,
        source="CSAM paper, fig. 3a-b (bars) and the tables named below, which do not agree with each other: SGD "
        "behind a temperature is ahead in S11 and for ViT-S/32",
        rule="Tuned as in A1. Held if debiased ECE(SGD behind temperature) − ECE(SAM) and ECE(SGD behind isotonic "
        "regression) − ECE(SAM), paired by seed, are above 0 with their 95 % intervals on both networks; where one "
        "is not, an interval below half a point counts against it. CSAM is shown, not judged.",
        fixed=LONGER,
        differs="small networks, thousands of pictures",
        headline=Headline(f"ECE of SGD behind temperature − SAM, {PLACES[DEEP]}", published=0.002, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=LATER_SEED,
        drawings=(Drawing("ece_bars"),),
    )
