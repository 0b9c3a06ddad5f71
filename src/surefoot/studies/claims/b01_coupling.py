"""B1: calibration error and Gauss–Newton sharpness move together along training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._arms import FIRST_SEED, asked_again
from surefoot.studies._coupling import NAMES, STRONG, UNKNOWN, all_coupled, correlate
from surefoot.studies._rules import OPEN_ALONG
from surefoot.studies.contract import Arm, Drawing, Finding, Headline, Size, Study
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "train ECE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.72, "muon": 0.63, "sam": 0.92},
    "train KCE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.70, "muon": 0.61, "sam": 0.91},
    "test ECE": {"gd": 0.96, "sgd": 0.97, "adamw": 0.15, "muon": -0.10, "sam": 0.98},
    "test KCE": {"gd": 0.97, "sgd": 0.97, "adamw": 0.21, "muon": -0.16, "sam": 0.98},
}
LEAST = {name: 0.0 if name == "Muon" else STRONG for name in NAMES.values()}


def grid(size: Size) -> dict[str, Arm]:
    """Five optimizers at four rates; on a laptop AdamW, which was open, at more seeds."""
    return all_coupled(size) | asked_again(all_coupled(size, ("adamw",)), size, 5)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for a mean r above one half, for Muon above 0."""
    names = {f"r of train ECE and sharpness, {name}": limit for name, limit in LEAST.items()}
    return together([above(numbers[name], limit, name) for name, limit in names.items()])


@STUDIES.register("b1")
def b1() -> Study:
    """Train ECE and Gauss–Newton sharpness move together."""
    return Study(
        question="Do train ECE and Gauss–Newton sharpness move together along training, whatever the optimizer?",
        published=PUBLISHED,
        source="Too Sharp, Too Sure, table 1 (mean over four learning rates; CIFAR-10, 5k/5k, MLP 200-200 tanh)",
        rule="Held if Pearson's r of train ECE and sharpness over the moments of a run, averaged over four learning "
        "rates, is above 0.5 with its 95 % interval over seeds for GD, SGD, AdamW and SAM and above 0 for Muon, whose "
        "published spread is .26. Shown, not judged: test errors with the sharpness on test examples and with that on "
        "training examples, r before and after the training set is fitted, of changes, and over shorter horizons. With "
        "three seeds AdamW was below 0.5, but not clearly as one of five; on a laptop it is judged on five others, and "
        "the other optimizers stand as they were seen.",
        fixed=OPEN_ALONG,
        differs=UNKNOWN,
        headline=Headline("r of train ECE and sharpness, AdamW", limit=STRONG, published=0.72),
        grid=grid,
        analyse=partial(correlate, published=PUBLISHED),
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("phase"), Drawing("phase:split=test")),
    )
