"""B6: the theorems that bound ECE and sharpness by margins hold at every tracked step of every run."""

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

CHECKS: dict[Size, str] = {
    "smoke": "certificate:every=8,examples=500,probe=16",
    "laptop": "certificate:every=50,examples=2000,probe=64",
    "paper": "certificate:every=1000",
}
COLUMNS = (
    Column("violated", "violations", digits=0),
    Column("checked", "inequalities checked", digits=0),
    Column("separable", "of these under theorem 4.2", digits=0),
    Column("ece", "last train ECE", digits=4),
    Column("bound", "last bound on it", digits=4),
)


def grid(size: Size) -> dict[str, Arm]:
    """Every optimizer at its third rate; the fastest way to a fitted training set that they share."""
    return {label(name, rates[2]): coupled(name, rates[2], size, more=CHECKS[size]) for name, rates in RATES.items()}


def analyse(runs: Runs) -> Analysis:
    """Count inequalities, and those that do not hold."""
    found = {arm: {seed: _count(run.tracked()) for seed, run in runs[arm].items()} for arm in runs.found}
    rows = [
        Row(arm, measured={c.key: spread({s: v[c.key] for s, v in by_seed.items()}) for c in COLUMNS})
        for arm, by_seed in found.items()
    ]
    every = [values for by_seed in found.values() for values in by_seed.values()]
    numbers = {
        name: Estimate(sum(values[key] for values in every), n=len(every))
        for name, key in (
            ("violations", "violated"),
            ("inequalities checked", "checked"),
            ("inequalities checked under theorem 4.2", "separable"),
        )
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _count(records: list[dict[str, float]]) -> dict[str, float]:
    checks = [record for record in records if "certificate/violated" in record]
    keys = [key for record in checks for key in record if "slack/" in key]
    last = checks[-1] if checks else {}
    return {
        "violated": sum(record["certificate/violated"] for record in checks),
        "checked": len(keys),
        "separable": sum("theorem_4_2" in key for key in keys),
        "ece": last.get("train/certificate_ece", 0.0),
        "bound": last.get("train/certificate_bound", 0.0),
    }


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for no violation, and for both regimes to have been seen."""
    violated, checked, separable = numbers.values()
    return together([
        none_of(violated, checked, "theorems 4.1, 4.2 and what follows from them"),
        true_if(True if separable.value else None, f"theorem 4.2 applied {separable:g} times"),
    ])


@STUDIES.register("b6")
def b6() -> Study:
    """ECE and sharpness stay below their bounds by margins at every tracked step."""
    return Study(
        question="Do theorems 4.1 and 4.2 hold at every tracked step of every run?",
        published={},
        source="Too Sharp, Too Sure, section 4 and app. B",
        rule="Held if not a single inequality is violated at any tracked step of any run and theorem 4.2, which needs "
        "all train margins above 0, applied at least once. One violation contradicts it.",
        fixed=SECOND_ROUND,
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("dynamics"),),
    )
