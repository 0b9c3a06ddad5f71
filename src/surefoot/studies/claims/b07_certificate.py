"""B7: robust margins of the training set certify ECE under bounded shifts."""

from __future__ import annotations

from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, spread
from surefoot.studies._arms import FIRST_SEED
from surefoot.studies._coupling import RATES, coupled, label
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import none_of, together, true_if

RADIUS = 0.4
POINTS = (0.1, 0.2, 0.4)
TRACK: dict[Size, str] = {
    "smoke": f"shift:every=16,examples=32,epsilon={RADIUS}",
    "laptop": f"shift:every=400,examples=500,epsilon={RADIUS}",
    "paper": f"shift:every=10000,examples=5000,epsilon={RADIUS}",
}
OPTIMIZERS = ("sgd", "adamw", "muon", "sam")
COLUMNS = tuple(
    Column(f"{key}@{at:g}", f"{name}, ε = {at:g}", digits=4)
    for at in POINTS
    for key, name in (
        ("shift/ece", "ECE under attack"),
        ("shift/bound", "bounded certificate"),
        ("shift/log_bound", "log of the certificate"),
    )
)


def grid(size: Size) -> dict[str, Arm]:
    """Optimizers at their third rate."""
    return {label(name, RATES[name][2]): coupled(name, RATES[name][2], size, more=TRACK[size]) for name in OPTIMIZERS}


def analyse(runs: Runs) -> Analysis:
    """Return certificate and error at the end, and count certificates that do not hold at any moment."""
    rows = [Row(arm, measured={c.key: spread(runs.last(arm, c.key)) for c in COLUMNS}) for arm in runs.found]
    records = [r for run in runs.all() for r in run.tracked() if "shift/violated" in r]
    certified = sum(record[f"shift/certified@{at:g}"] for record in records for at in POINTS)
    useful = sum(record[f"shift/log_bound@{at:g}"] < 0 for record in records for at in POINTS)
    n = len(runs.all())
    numbers = {
        "violated certificates": Estimate(sum(record["shift/violated"] for record in records), n=n),
        "certificates from certified margins": Estimate(certified, n=n),
        "certificates below 1": Estimate(useful, n=n),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for no violation; a bound of 1 or more says nothing, so some must be below."""
    violated, certified, useful = numbers.values()
    return together([
        none_of(violated, certified, "certificates for shifted data"),
        true_if(True if useful.value else None, f"{useful:g} certificates are below 1"),
    ])


@STUDIES.register("b7")
def b7() -> Study:
    """Test ECE under bounded label-preserving shifts stays below the certificate of the training set."""
    return Study(
        question="Does (K−1)·Q⁰_ε of training examples bound their ECE under label-preserving shifts up to ε?",
        published={},
        source="Too Sharp, Too Sure, proposition B.7 and corollary B.8",
        rule="Held if no certificate from certified robust margins is exceeded by the ECE under an attack of the same "
        "radius at any tracked moment of any run, and at least one certificate is below 1, where it says something. "
        "One that is exceeded contradicts it.",
        fixed=SECOND_ROUND,
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("dynamics"),),
    )
