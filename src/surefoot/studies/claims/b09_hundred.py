"""B9: calibration error and sharpness move together on CIFAR-100 as they do on CIFAR-10."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._coupling import all_coupled, correlate
from surefoot.studies.contract import Arm, Drawing, Size, Study, Verdict
from surefoot.studies.verdicts import above, together


def grid(size: Size) -> dict[str, Arm]:
    """Five optimizers at the rates of CIFAR-10, on 5,000 examples of 100 classes."""
    return all_coupled(size, classes=100)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for a positive mean r of every optimizer: the paper prints curves here, no number."""
    return together([above(number, 0, name) for name, number in numbers.items()])


@STUDIES.register("b9")
def b9() -> Study:
    """Train ECE and sharpness move together on 100 classes too."""
    return Study(
        question="Do train ECE and Gauss–Newton sharpness move together on CIFAR-100 as well?",
        published={},
        source="Too Sharp, Too Sure, fig. A8–A14 (curves; CIFAR-100, 5k/5k, MLP 200-200 tanh)",
        rule="Held if Pearson's r of train ECE and sharpness over the moments of a run, averaged over learning rates "
        "and seeds, is above 0 with its 95 % interval for GD, SGD, AdamW, Muon and SAM; did not hold if one is below 0 "
        "with its interval; else not resolved. Test values and shorter horizons are shown, not judged.",
        grid=grid,
        analyse=partial(correlate, published={}),
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("phase"), Drawing("dynamics", "gd"), Drawing("dynamics", "sgd")),
    )
