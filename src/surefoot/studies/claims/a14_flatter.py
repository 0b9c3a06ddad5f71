"""A14: CSAM and SAM reach flatter minima."""

from __future__ import annotations

import math
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, ratio, spread
from surefoot.studies._arms import DECAYS, FRESH_SEED, tuned
from surefoot.studies._rules import AGAIN
from surefoot.studies._tables import ACCURACY, ECE
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, together

KAPPA = Column("kappa_max", "κ_max", digits=1)
PUBLISHED = {
    "sgd": {"kappa_max": 631.9},
    "label_smoothing": {"kappa_max": 583.7},
    "focal": {"kappa_max": 497.0},
    "sam": {"kappa_max": 178.0},
    "csam": {"kappa_max": 148.2},
}
PAIRS = (("sgd", "sam"), ("sgd", "csam"), ("sam", "csam"))
ENDS = "kappa:every=1000000,examples=1000"  # the untrained and the finished network


def grid(size: Size) -> dict[str, Arm]:
    """The five rows of the table."""
    return tuned(PUBLISHED, size, on="hundred", decays=DECAYS[:1], track=ENDS)


def analyse(runs: Runs) -> Analysis:
    """Compare κ_max of the finished networks."""
    runs = runs.tuned()
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
    numbers = {f"κ_max of {a.upper()} / κ_max of {b.upper()}": ratio(kappa[a], kappa[b]) for a, b in PAIRS}
    return Analysis(Table((KAPPA, ECE, ACCURACY), tuple(rows)), numbers, runs)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for all ratios above 1."""
    parts = []
    for number, (flat, flatter) in zip(numbers.values(), PAIRS, strict=True):
        published = PUBLISHED[flat]["kappa_max"] / PUBLISHED[flatter]["kappa_max"]
        name = f"κ_max({flat.upper()})/κ_max({flatter.upper()})"
        parts.append(above(number, 1, name, enough=math.cbrt(published)))
    return together(parts)


@STUDIES.register("a14")
def a14() -> Study:
    """CSAM and SAM reach flatter minima than SGD, CSAM the flattest."""
    return Study(
        question="Is the largest Hessian eigenvalue at the end smaller with SAM than with SGD, and with CSAM than SAM?",
        published=PUBLISHED,
        source="CSAM paper, table S16 (CIFAR-100, ResNet-56)",
        rule="Three settings each at the usual weight decay, chosen by the mean NLL of all seeds on the calibration "
        "split. Held if the ratios κ_max(SGD)/κ_max(SAM), κ_max(SGD)/κ_max(CSAM) and κ_max(SAM)/κ_max(CSAM), geometric "
        "means over seeds, are above 1 with their 95 % intervals; where one is not, an interval below the cube root "
        "of the published ratio counts against it. κ_max of cross-entropy on 1,000 examples. Judged on thirty seeds, "
        "for five others said that fourteen would tell one of the ratios from 1 in four cases of five.",
        fixed=AGAIN,
        differs="a perceptron on 5,000 pictures of the same hundred classes",
        headline=Headline("κ_max of SGD / κ_max of CSAM", limit=1.0, published=4.26),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 30, "paper": 5},
        first_seed=FRESH_SEED,
        drawings=(Drawing("ece_bars"),),
    )
