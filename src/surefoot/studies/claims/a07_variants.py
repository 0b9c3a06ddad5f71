"""A7: other sharpness-aware optimizers calibrate too."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import FIRST_SEED, tuned
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies._tables import ACCURACY, ECE, TCE, ece_gap, ece_of, mean_by_seed, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "sgd": {"accuracy": 94.26, "ece": 3.52},
    "sam": {"accuracy": 94.50, "ece": 1.83},
    "asam": {"accuracy": 94.82, "ece": 2.03},
    "vasso": {"accuracy": 94.70, "ece": 1.75},
    "csam": {"accuracy": 94.58, "ece": 1.47},
}
NAMES = (*PUBLISHED, "ssam")
VARIANTS = ("asam", "vasso", "ssam")


def grid(size: Size) -> dict[str, Arm]:
    """The five rows of the table, and Stable SAM."""
    return tuned(NAMES, size)


def analyse(runs: Runs) -> Analysis:
    """Compare each with SGD."""
    chosen = runs.tuned(seed_by_seed=True)
    numbers = {f"ECE of SGD − {name}": ece_gap(chosen, "sgd", name) for name in NAMES if name != "sgd"}
    mean = mean_by_seed([ece_of(chosen, name) for name in VARIANTS])
    numbers["ECE of SGD − mean of ASAM, VASSO and Stable SAM"] = difference(ece_of(chosen, "sgd"), mean)
    table = metrics_table(chosen, (ACCURACY, ECE, TCE), PUBLISHED, {name: name for name in NAMES})
    return Analysis(table, numbers, chosen)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for each below SGD."""
    return together([above(number, 0, name) for name, number in numbers.items() if "mean" not in name])


@STUDIES.register("a7")
def a7() -> Study:
    """Other SAM variants calibrate too: ASAM, VASSO, CSAM, Stable SAM."""
    return Study(
        question="Are ASAM, VASSO and Stable SAM better calibrated than SGD as well?",
        published=PUBLISHED,
        source="CSAM paper, table S11 (CIFAR-10, ResNet-56)",
        rule="Tuned as in A1, six settings each. Held if debiased ECE(SGD) − ECE(variant), paired by seed, is above 0 "
        "with its 95 % interval for SAM, ASAM, VASSO, CSAM and Stable SAM.",
        fixed=SECOND_ROUND,
        differs="a small network on clothes",
        headline=Headline("ECE of SGD − mean of ASAM, VASSO and Stable SAM", published=0.0163, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("ece_bars"),),
    )
