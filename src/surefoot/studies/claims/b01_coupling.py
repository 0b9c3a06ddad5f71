"""B1: calibration error and Gauss–Newton sharpness move together along training."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate
from surefoot.studies._coupling import all_coupled, correlate
from surefoot.studies.contract import Drawing, Study, Verdict
from surefoot.studies.verdicts import above, together

PUBLISHED = {
    "train ECE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.72, "muon": 0.63, "sam": 0.92},
    "train KCE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.70, "muon": 0.61, "sam": 0.91},
    "test ECE": {"gd": 0.96, "sgd": 0.97, "adamw": 0.15, "muon": -0.10, "sam": 0.98},
    "test KCE": {"gd": 0.97, "sgd": 0.97, "adamw": 0.21, "muon": -0.16, "sam": 0.98},
}
LEAST = 0.5


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for a mean r above one half, for Muon above 0."""
    return together([above(number, LEAST if "Muon" not in name else 0, name) for name, number in numbers.items()])


@STUDIES.register("b1")
def b1() -> Study:
    """Train ECE and Gauss–Newton sharpness move together."""
    return Study(
        question="Do train ECE and Gauss–Newton sharpness move together along training, whatever the optimizer?",
        published=PUBLISHED,
        source="Too Sharp, Too Sure, table 1 (mean over four learning rates; CIFAR-10, 5k/5k, MLP 200-200 tanh)",
        rule=f"Held if Pearson's r of train ECE and sharpness over the moments of a run, averaged over learning rates "
        f"and seeds, is above {LEAST:g} with its 95 % interval for GD, SGD, AdamW and SAM and above 0 for Muon, whose "
        "published spread is .26; did not hold if one is below its limit with its interval; else not resolved. Test "
        "values and shorter horizons are shown, not judged.",
        grid=all_coupled,
        analyse=partial(correlate, published=PUBLISHED),
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("phase"), Drawing("phase:split=test")),
    )
