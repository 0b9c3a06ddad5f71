"""B5: out of sample the coupling breaks; Muon has train ECE near 0 and a high test ECE."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, difference, mean, spread
from surefoot.studies._arms import FIRST_SEED
from surefoot.studies._coupling import UNKNOWN, all_coupled, arms_of, over_rates
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import BySeed, Runs
from surefoot.studies.verdicts import above, below, together

COLUMNS = (
    Column("train/ece", "last train ECE", digits=3),
    Column("test/ece", "last test ECE", digits=3),
    Column("train/margin_median", "median train margin"),
    Column("test/margin_median", "median test margin"),
    Column("test/accuracy", "test accuracy %", percent=True, digits=1),
)
NEAR_ZERO, HIGH = 0.02, 0.2


def grid(size: Size) -> dict[str, Arm]:
    """Muon and SGD at four rates."""
    return all_coupled(size, ("sgd", "muon"))


def analyse(runs: Runs) -> Analysis:
    """Return both errors and margins at the end."""
    rows = [Row(arm, measured={c.key: spread(runs.last(arm, c.key)) for c in COLUMNS}) for arm in runs.found]

    def last(optimizer: str, key: str) -> BySeed:
        return over_rates(arms_of(runs, optimizer), lambda arm: runs.last(arm, key))

    margins = [last(name, "train/margin_median") for name in ("muon", "sgd")]
    numbers = {
        "last train ECE of Muon": mean(list(last("muon", "train/ece").values())),
        "last test ECE of Muon": mean(list(last("muon", "test/ece").values())),
        "median train margin of Muon − SGD": difference(*margins),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for nearly none, much, and large margins."""
    train, test, margin = numbers.values()
    return together([
        below(train, NEAR_ZERO, "Muon's last train ECE"),
        above(test, HIGH, "Muon's last test ECE"),
        above(margin, 0, "median train margin of Muon − SGD"),
    ])


@STUDIES.register("b5")
def b5() -> Study:
    """Muon has a train ECE near 0 and a high test ECE."""
    return Study(
        question="Does Muon end with a train ECE near 0, large train margins and a high test ECE?",
        published={},
        source="Too Sharp, Too Sure, section 3.3 (no numbers)",
        rule="Averaged over four learning rates, with 95 % intervals over seeds: held if Muon's train ECE at the end "
        f"is below {NEAR_ZERO:g}, its test ECE above {HIGH:g} and its median train margin above SGD's.",
        fixed=SECOND_ROUND,
        differs=UNKNOWN,
        headline=Headline("last test ECE of Muon", limit=HIGH, percent=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("dynamics", "muon"), Drawing("dynamics", "sgd")),
    )
