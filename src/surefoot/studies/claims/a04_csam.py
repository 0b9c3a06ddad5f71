"""A4: CSAM is better calibrated than SAM, and no less accurate."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._arms import AUTO, DEEP, FIRST_SEED, residual, tuned, tuning_themselves
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies._tables import ACCURACY, ECE, NLL, TCE, accuracy_gap, ece_gap, metrics_table
from surefoot.studies.claims.a01_sam_calibrates import PLACES
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
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
    """SAM and CSAM with as many settings each; SGD for scale, and CSAM that tunes itself."""
    methods = ("sgd", "sam", "csam")
    return {**tuned(methods, size), **tuning_themselves(size), **residual((*methods, *AUTO), size)}


def analyse(runs: Runs) -> Analysis:
    """Return paired differences in ECE and accuracy."""
    chosen = runs.tuned()
    numbers = {}
    for at, place in PLACES.items():
        numbers[f"ECE of SAM − CSAM, {place}"] = ece_gap(chosen, f"sam{at}", f"csam{at}")
        numbers[f"accuracy of CSAM − SAM, {place}"] = accuracy_gap(chosen, f"csam{at}", f"sam{at}")
        for name in AUTO:
            numbers[f"ECE of SAM − {name}, {place}"] = ece_gap(chosen, f"sam{at}", f"{name}{at}")
    names = {arm: arm for arm in chosen.found}
    return Analysis(metrics_table(chosen, (ACCURACY, ECE, NLL, TCE), PUBLISHED, names), numbers, chosen)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for less ECE, and for accuracy that is not lost; what tunes itself is shown."""
    judged = {name: number for name, number in numbers.items() if "auto" not in name}
    return together([
        above(number, 0, name) if name.startswith("ECE") else no_worse(number, TOLERANCE, name)
        for name, number in judged.items()
    ])


@STUDIES.register("a4")
def a4() -> Study:
    """CSAM is better calibrated than SAM, accuracy not hurt."""
    return Study(
        question="Is CSAM better calibrated than SAM, without losing accuracy?",
        published=PUBLISHED,
        source="CSAM paper, CIFAR results",
        rule="Both are tuned as SAM in A1, with as many settings each (CSAM: three of radius and γ). Held if on both "
        "networks debiased ECE(SAM) − ECE(CSAM), paired by seed, is above 0 with its 95 % interval and the interval "
        "of accuracy(CSAM) − accuracy(SAM) lies above −0.5 points. CSAM that tunes itself is shown, not judged.",
        fixed=SECOND_ROUND,
        differs="small networks, thousands of pictures",
        headline=Headline(f"ECE of SAM − CSAM, {PLACES[DEEP]}", published=0.0036, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
