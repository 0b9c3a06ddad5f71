"""A4: CSAM is better calibrated than SAM, and no less accurate."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean
from surefoot.studies._arms import AUTO, DEEP, LATER_SEED, residual, tuned, tuning_themselves
from surefoot.studies._rules import LONGER, third
from surefoot.studies._tables import (
    ACCURACY,
    ECE,
    NLL,
    TCE,
    difference_by_seed,
    ece_gap,
    ece_of,
    mean_by_seed,
    metrics_table,
)
from surefoot.studies.claims.a01_sam_calibrates import PLACES
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import SETTING, Runs
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
GAP = 0.36  # points of ECE, both on CIFAR-10


def grid(size: Size) -> dict[str, Arm]:
    """SAM and CSAM with as many settings each; SGD for scale, and CSAM that tunes itself."""
    methods = ("sgd", "sam", "csam")
    return {**tuned(methods, size), **tuning_themselves(size), **residual((*methods, *AUTO), size)}


def analyse(runs: Runs) -> Analysis:
    """Return paired differences in ECE and accuracy: at the same radii, and where each is tuned."""
    chosen = runs.tuned()
    numbers = {}
    for at, place in PLACES.items():
        pairs = _same_radius(runs, at)
        eces = [difference_by_seed(ece_of(runs, sam), ece_of(runs, csam)) for sam, csam in pairs]
        right = [difference_by_seed(*(runs.measure(arm, "accuracy") for arm in (csam, sam))) for sam, csam in pairs]
        numbers[f"ECE of SAM − CSAM, {place}"] = mean(list(mean_by_seed(eces).values()))
        numbers[f"accuracy of CSAM − SAM, {place}"] = mean(list(mean_by_seed(right).values()))
        numbers[f"ECE of SAM − CSAM, each tuned, {place}"] = ece_gap(chosen, f"sam{at}", f"csam{at}")
        for name in AUTO:
            numbers[f"ECE of SAM − {name}, {place}"] = ece_gap(chosen, f"sam{at}", f"{name}{at}")
    names = {arm: arm for arm in chosen.found}
    return Analysis(metrics_table(chosen, (ACCURACY, ECE, NLL, TCE), PUBLISHED, names), numbers, chosen)


def _same_radius(runs: Runs, at: str) -> list[tuple[str, str]]:
    """Pair the settings of SAM and CSAM that differ in γ alone."""
    found = []
    for csam in (label for label in runs.found if label.startswith(f"csam{at}{SETTING}")):
        options = csam.partition(SETTING)[2].split(",")
        sam = f"sam{at}{SETTING}" + ",".join(option for option in options if not option.startswith("gamma="))
        found += [(sam, csam)] if sam in runs.found else []
    return found


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for less ECE, and for accuracy that is not lost; what is tuned is shown."""
    judged = {name: number for name, number in numbers.items() if "auto" not in name and "tuned" not in name}
    return together([
        above(number, 0, name, enough=third(GAP)) if name.startswith("ECE") else no_worse(number, TOLERANCE, name)
        for name, number in judged.items()
    ])


@STUDIES.register("a4")
def a4() -> Study:
    """CSAM is better calibrated than SAM, accuracy not hurt."""
    return Study(
        question="Is CSAM better calibrated than SAM, without losing accuracy?",
        published=PUBLISHED,
        source="CSAM paper, CIFAR results",
        rule="At each radius and weight decay that both have among the settings of A1 (CSAM with γ = 1, at the larger "
        "radius also 2), CSAM is compared with SAM, and the differences are averaged. Held if on both networks "
        "debiased ECE(SAM) − ECE(CSAM), paired by seed, is above 0 with its 95 % interval and the interval of "
        "accuracy(CSAM) − accuracy(SAM) lies above −0.5 points; where the first is not, an interval below a third of "
        "the published 0.36 points counts against it. Both where each is tuned as in A1 on its own, and CSAM that "
        "tunes itself, are shown, not judged.",
        fixed=LONGER,
        differs="small networks, thousands of pictures",
        headline=Headline(f"ECE of SAM − CSAM, {PLACES[DEEP]}", published=GAP / 100, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=LATER_SEED,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
