"""A6: SAM and CSAM against losses made for calibration."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference
from surefoot.studies._arms import FIRST_SEED, tuned
from surefoot.studies._rules import MIDWAY, third
from surefoot.studies._tables import ACCURACY, ECE, TCE, ece_gap, ece_of, mean_by_seed, metrics_table
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "sgd": {"accuracy": 72.30, "ece": 13.03},
    "label_smoothing": {"accuracy": 72.54, "ece": 4.38},
    "acls": {"accuracy": 72.49, "ece": 2.32},
    "crl": {"accuracy": 72.36, "ece": 3.43},
    "cpc": {"accuracy": 72.45, "ece": 2.62},
    "mbls": {"accuracy": 72.42, "ece": 2.33},
    "mdca": {"accuracy": 72.38, "ece": 3.16},
    "sam": {"accuracy": 74.63, "ece": 1.87},
    "csam": {"accuracy": 74.98, "ece": 1.25},
}
LOSSES = ("label_smoothing", "acls", "crl", "cpc", "mbls", "mdca")
GAP = (statistics.fmean(PUBLISHED[loss]["ece"] for loss in LOSSES) - PUBLISHED["csam"]["ece"]) / 100


def grid(size: Size) -> dict[str, Arm]:
    """The nine rows of the table, each with as many settings."""
    return tuned(PUBLISHED, size, on="hundred")


def analyse(runs: Runs) -> Analysis:
    """Compare CSAM, and SAM, with each loss."""
    chosen = runs.tuned()
    numbers = {
        f"ECE of {loss} − {method}": ece_gap(chosen, loss, method) for method in ("csam", "sam") for loss in LOSSES
    }
    mean = mean_by_seed([ece_of(chosen, loss) for loss in LOSSES])
    numbers["ECE, mean of the six losses, less CSAM's"] = difference(mean, ece_of(chosen, "csam"))
    names = {name: name for name in PUBLISHED}
    return Analysis(metrics_table(chosen, (ACCURACY, ECE, TCE), PUBLISHED, names), numbers, chosen)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for CSAM below every loss; SAM's numbers are shown beside it."""
    gaps = {f"ECE of {loss} − csam": PUBLISHED[loss]["ece"] - PUBLISHED["csam"]["ece"] for loss in LOSSES}
    return together([above(numbers[name], 0, name, enough=third(gap)) for name, gap in gaps.items()])


@STUDIES.register("a6")
def a6() -> Study:
    """CSAM has a lower ECE than losses made for calibration."""
    return Study(
        question="Is CSAM better calibrated than six losses made for calibration?",
        published=PUBLISHED,
        source="CSAM paper, table S13 (CIFAR-100, ResNet-56)",
        rule="Tuned as in A5, six settings each. Held if debiased ECE(loss) − ECE(CSAM), paired by seed, is above 0 "
        "with its 95 % interval for each of the six losses; where it is not, an interval below a third of the "
        "published difference counts against it. SAM is shown, not judged.",
        fixed=MIDWAY,
        differs="a perceptron on 5,000 pictures of the same hundred classes",
        headline=Headline("ECE, mean of the six losses, less CSAM's", published=GAP, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("ece_bars"),),
    )
