"""B1: calibration error and Gauss–Newton sharpness move together along training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.report.summary import Spread
from surefoot.studies._coupling import RATES, all_coupled, arms_of
from surefoot.studies.contract import Analysis, Column, Drawing, Estimate, Row, Runs, Study, Table, Verdict
from surefoot.studies.statistics import above, correlation, mean, mean_and_sd, together

NAMES = {"gd": "GD", "sgd": "SGD", "adamw": "AdamW", "muon": "Muon", "sam": "SAM"}
PUBLISHED = {
    "train ECE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.72, "muon": 0.63, "sam": 0.92},
    "train KCE": {"gd": 0.83, "sgd": 0.84, "adamw": 0.70, "muon": 0.61, "sam": 0.91},
    "test ECE": {"gd": 0.96, "sgd": 0.97, "adamw": 0.15, "muon": -0.10, "sam": 0.98},
    "test KCE": {"gd": 0.97, "sgd": 0.97, "adamw": 0.21, "muon": -0.16, "sam": 0.98},
}
HORIZONS = (0.25, 0.5, 1.0)
LEAST = 0.5


def analyse(runs: Runs) -> Analysis:
    """Correlate over each run; mean ± sd over learning rates as the paper's table, and over shorter horizons."""
    rows = [_row(runs, name, 1.0) for name in PUBLISHED]
    for share in HORIZONS[:-1]:
        rows += [_row(runs, name, share) for name in ("train ECE", "test ECE")]
    numbers: dict[str, Estimate] = {}
    for optimizer in RATES:
        per_run = [r for arm in arms_of(runs, optimizer) for r in _by_seed(runs, arm, "train ECE", 1.0)]
        numbers[f"r of train ECE and sharpness, {NAMES[optimizer]}"] = mean(per_run)
    return Analysis(Table(tuple(Column(key, f"r, {name}") for key, name in NAMES.items()), tuple(rows)), numbers)


def _row(runs: Runs, name: str, share: float) -> Row:
    label = name if share == 1 else f"{name}, first {100 * share:.0f} % of the steps"
    measured = {optimizer: _over_rates(runs, optimizer, name, share) for optimizer in RATES}
    return Row(label, PUBLISHED[name] if share == 1 else {}, measured)


def _over_rates(runs: Runs, optimizer: str, name: str, share: float) -> Spread | None:
    """Average r over seeds at each rate, then give mean ± sd over rates."""
    found = [_by_seed(runs, arm, name, share) for arm in arms_of(runs, optimizer)]
    over = mean_and_sd([statistics.fmean(values) for values in found if values])
    if over.value is None or over.high is None:
        return None
    return Spread(over.value, over.high - over.value if over.n > 1 else None, over.n)


def _by_seed(runs: Runs, arm: str, name: str, share: float) -> list[float]:
    key = name.lower().replace(" ", "/")
    found = []
    for steps in runs.series(arm, key, "gn_sharpness/value").values():
        end = share * max(steps, default=0)
        r = correlation(values for step, values in steps.items() if step <= end)
        found += [r] if math.isfinite(r) else []
    return found


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for a mean r above one half, for Muon above 0."""
    return together([above(number, LEAST if "Muon" not in name else 0, name) for name, number in numbers.items()])


@STUDIES.register("b1")
def b1() -> Study:
    """Train ECE and Gauss–Newton sharpness move together."""
    return Study(
        claim="B1",
        question="Do train ECE and Gauss–Newton sharpness move together along training, whatever the optimizer?",
        published=PUBLISHED,
        source="Too Sharp, Too Sure, table 1 (mean over four learning rates; CIFAR-10, 5k/5k, MLP 200-200 tanh)",
        rule=f"Held if Pearson's r of train ECE and sharpness over the moments of a run, averaged over learning rates "
        f"and seeds, is above {LEAST:g} with its 95 % interval for GD, SGD, AdamW and SAM and above 0 for Muon, whose "
        "published spread is .26; did not hold if one is below its limit with its interval; else not resolved. Test "
        "values and shorter horizons are shown, not judged.",
        grid=all_coupled,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 1},
        drawings=(Drawing("phase"), Drawing("phase:split=test")),
    )
