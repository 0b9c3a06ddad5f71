"""B9: calibration error and sharpness move together on CIFAR-100 as they do on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._arms import FIRST_SEED
from surefoot.studies._coupling import NAMES, RATES, STRONG, UNKNOWN, correlate, coupled, label
from surefoot.studies._rules import MIDWAY_ALONG
from surefoot.studies.contract import Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.verdicts import above, together


def grid(size: Size) -> dict[str, Arm]:
    """Five optimizers at the third rate of CIFAR-10, on 5,000 examples of 100 classes."""
    return {label(name, rates[2]): coupled(name, rates[2], size, classes=100) for name, rates in RATES.items()}


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for a positive mean r of every optimizer: the paper prints curves here, no number."""
    names = [f"r of train ECE and sharpness, {name}" for name in NAMES.values()]
    return together([above(numbers[name], 0, name, enough=STRONG) for name in names])


@STUDIES.register("b9")
def b9() -> Study:
    """Train ECE and sharpness move together on 100 classes too."""
    return Study(
        question="Do train ECE and Gauss–Newton sharpness move together on CIFAR-100 as well?",
        published={},
        source="Too Sharp, Too Sure, fig. A8–A14 (curves; CIFAR-100, 5k/5k, MLP 200-200 tanh)",
        rule="Held if Pearson's r of train ECE and sharpness over the moments of a run is above 0 with its 95 % "
        "interval over seeds for GD, SGD, AdamW, Muon and SAM, each at one learning rate; where it is not, an "
        f"interval below {STRONG:g}, which B1 asks for, counts against it. The other readings of B1 are shown, not "
        "judged.",
        fixed=MIDWAY_ALONG,
        differs=UNKNOWN,
        headline=Headline("r of train ECE and sharpness, mean of the optimizers"),
        grid=grid,
        analyse=partial(correlate, published={}),
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("phase"), Drawing("dynamics", "gd"), Drawing("dynamics", "sgd")),
    )
