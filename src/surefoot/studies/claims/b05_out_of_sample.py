"""B5: out of sample the coupling breaks; Muon has train ECE near 0 and a high test ECE."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean, spread
from surefoot.studies._coupling import all_coupled, arms_of
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
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
    muon = arms_of(runs, "muon")
    train, test = ([v for arm in muon for v in runs.last(arm, f"{split}/ece").values()] for split in ("train", "test"))
    margin = [v for arm in muon for v in runs.last(arm, "train/margin_median").values()]
    other = [v for arm in arms_of(runs, "sgd") for v in runs.last(arm, "train/margin_median").values()]
    numbers = {
        "last train ECE of Muon": mean(train),
        "last test ECE of Muon": mean(test),
        "median train margin of Muon − SGD": mean([a - b for a, b in zip(margin, other, strict=False)]),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
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
        rule=f"Held if over all rates and seeds Muon's mean train ECE at the end is below {NEAR_ZERO:g}, its test ECE "
        f"above {HIGH:g} and its median train margin above SGD's, each with its 95 % interval; did not hold if one "
        "lies on the other side with its interval; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("dynamics", "muon"), Drawing("dynamics", "sgd")),
    )
