"""B3: SAM stays flatter but peaks like SGD; Muon and BulkSGD peak lower and decay faster."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, ratio, spread
from surefoot.studies._arms import FIRST_SEED
from surefoot.studies._coupling import UNKNOWN, all_coupled, arms_of, over_rates, projected, summary_of
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import BySeed, Runs
from surefoot.studies.verdicts import above, below, together

NAMES = ("sgd", "sam", "muon", "bulk_sgd", "long_sgd")
LOW = 0.05  # train ECE that counts as gone
ALIKE = (0.7, 1.4)
COLUMNS = (
    Column("peak", "peak train ECE", digits=3),
    Column("time", f"steps until train ECE < {LOW:g} for good", digits=0),
    Column("sharpness", "mean sharpness", digits=1),
)


def grid(size: Size) -> dict[str, Arm]:
    """SGD, SAM and Muon at four rates, BulkSGD and as many steps of SGD at the larger published one."""
    bulk = {"bulk_sgd": projected(1, size), "long_sgd": projected(0, size)}
    return {**all_coupled(size, ("sgd", "sam", "muon")), **bulk}


def analyse(runs: Runs) -> Analysis:
    """Return peak, time to low error and mean sharpness of each optimizer, averaged over rates, by seed."""
    peak = {name: _over(runs, name, "peak") for name in NAMES}
    time = {name: _over(runs, name, "time") for name in NAMES}
    flat = {name: _over(runs, name, "sharpness") for name in NAMES}
    rows = [
        Row(name, measured={"peak": spread(peak[name]), "time": spread(time[name]), "sharpness": spread(flat[name])})
        for name in NAMES
    ]
    numbers = {
        "mean sharpness of SGD / SAM": ratio(flat["sgd"], flat["sam"]),
        "peak train ECE of SAM / SGD": ratio(peak["sam"], peak["sgd"]),
        "steps to low train ECE, SAM / SGD": ratio(time["sam"], time["sgd"]),
        "peak train ECE of SGD − Muon": difference(peak["sgd"], peak["muon"]),
        "peak train ECE of SGD − BulkSGD": difference(peak["long_sgd"], peak["bulk_sgd"]),
        "steps to low train ECE, SGD / Muon": ratio(time["sgd"], time["muon"]),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _over(runs: Runs, name: str, what: str) -> BySeed:
    return over_rates(arms_of(runs, name), lambda arm: _of_arm(runs, arm, what))


def _of_arm(runs: Runs, arm: str, what: str) -> BySeed:
    if what == "sharpness":
        return summary_of(runs, arm, "gn_sharpness/value", statistics.fmean)
    if what == "peak":
        return summary_of(runs, arm, "train/ece", max)
    return {seed: _settled(steps) for seed, steps in runs.series(arm, "train/ece").items() if steps}


def _settled(steps: Mapping[int, tuple[float, ...]]) -> float:
    """Find the step from which train ECE stays low; the end of the run where it does not."""
    at = list(steps)
    last = max((place for place, step in enumerate(at) if steps[step][0] >= LOW), default=-1)
    return float(at[min(last + 1, len(at) - 1)])


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for each part of the claim."""
    flatter, alike, slower, muon, bulk, faster = numbers.values()
    return together([
        above(flatter, 1, "mean sharpness of SGD / SAM"),
        above(alike, ALIKE[0], "peak train ECE of SAM / SGD"),
        below(alike, ALIKE[1], "peak train ECE of SAM / SGD"),
        above(slower, 1, "steps to low train ECE, SAM / SGD,"),
        above(muon, 0, "peak train ECE of SGD − Muon"),
        above(bulk, 0, "peak train ECE of SGD − BulkSGD"),
        above(faster, 1, "steps to low train ECE, SGD / Muon,"),
    ])


@STUDIES.register("b3")
def b3() -> Study:
    """SAM stays flatter but peaks like SGD and is slower; Muon and BulkSGD peak lower, Muon decays faster."""
    return Study(
        question="Does avoiding steep directions lower the peak of train ECE where seeking flatness (SAM) does not?",
        published={},
        source="Too Sharp, Too Sure, fig. 2 and A15 (curves)",
        rule="Each is averaged over four learning rates (BulkSGD with k = 1 and SGD beside it: 2/30 alone), then "
        "compared by seed, with 95 % intervals over seeds. Held if SGD's mean sharpness is above SAM's, the ratio of "
        f"peak train ECE SAM/SGD lies within {ALIKE[0]:g}–{ALIKE[1]:g}, SAM takes longer until train ECE stays below "
        f"{LOW:g}, Muon and BulkSGD peak lower than SGD, and Muon is sooner below.",
        fixed=SECOND_ROUND,
        differs=UNKNOWN,
        headline=Headline("peak train ECE of SGD − Muon", percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(*(Drawing("dynamics", name) for name in ("sam", "muon", "bulk_sgd")), Drawing("phase")),
    )
