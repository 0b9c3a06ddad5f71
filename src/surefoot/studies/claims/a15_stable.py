"""A15: Stable SAM keeps working at learning rates where SAM degrades."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import FIRST_SEED, RHO, finished
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies._tables import ACCURACY, ECE, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, no_worse, together

RATES: dict[Size, tuple[float, ...]] = {
    "smoke": (0.1, 0.8),
    "laptop": (0.05, 0.1, 0.2),  # from 0.4 on, SGD diverges as well
    "paper": (0.01, 0.05, 0.1, 0.5, 1.0),
}
OPTIMIZERS = ("sgd", "sam", "ssam")
CHANCE = 0.1
TOLERANCE = 0.01


def grid(size: Size) -> dict[str, Arm]:
    """Three optimizers over learning rates."""
    arms = {}
    for lr in RATES[size]:
        for name in OPTIMIZERS:
            radius = "" if name == "sgd" else f"rho={RHO[size]},"
            arms[f"{name}, η = {lr:g}"] = finished(f"{name}:{radius}lr={lr}", size)
    return arms


def analyse(runs: Runs) -> Analysis:
    """Compare accuracies at the smallest and the largest rate; a run that diverged counts as guessing."""
    rates = list(dict.fromkeys(arm.partition("η = ")[2] for arm in runs.found))
    numbers = {}
    for where, rate in (("largest", rates[-1]), ("smallest", rates[0])):
        sam, ssam = (_accuracy(runs, f"{name}, η = {rate}") for name in ("sam", "ssam"))
        numbers[f"accuracy of Stable SAM − SAM at the {where} rate"] = difference(ssam, sam)
    numbers["accuracy of SGD − SAM at the largest rate"] = difference(
        _accuracy(runs, f"sgd, η = {rates[-1]}"), _accuracy(runs, f"sam, η = {rates[-1]}")
    )
    return Analysis(metrics_table(runs, (ACCURACY, ECE), {}, {arm: arm for arm in runs.found}), numbers)


def _accuracy(runs: Runs, arm: str) -> dict[int, float]:
    return runs.measure(arm, "accuracy") | dict.fromkeys(runs.failed.get(arm, {}), CHANCE)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for a gain where SAM degrades, and for nothing lost where it does not."""
    large, small, degraded = numbers.values()
    return together([
        above(degraded, 0, "accuracy of SGD − SAM at the largest rate"),
        above(large, 0, "accuracy of Stable SAM − SAM at the largest rate"),
        no_worse(small, TOLERANCE, "accuracy of Stable SAM − SAM at the smallest rate"),
    ])


@STUDIES.register("a15")
def a15() -> Study:
    """Stable SAM keeps working at learning rates where SAM degrades."""
    return Study(
        question="Does rescaling SAM's gradient to the clean one's norm keep it working at large learning rates?",
        published={},
        source="abstract of the Stable SAM paper (no numbers)",
        rule="Held if at the largest learning rate of the sweep SAM is less accurate than SGD and Stable SAM more "
        "accurate than SAM, both paired differences above 0 with their 95 % intervals, and at the smallest rate "
        "Stable SAM loses no more than one point to SAM with its interval. A run that diverges counts as guessing.",
        fixed=SECOND_ROUND,
        differs="a small network on clothes",
        headline=Headline("accuracy of Stable SAM − SAM at the largest rate", percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("sweep:over=lr"),),
    )
