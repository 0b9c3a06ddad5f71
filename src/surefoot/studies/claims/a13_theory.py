"""A13: what the theory of SAM's calibration assumes and proves, measured along training."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, correlation, mean, spread
from surefoot.studies._arms import FIRST_SEED, finished
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, below, none_of, together, true_if

RADII = (0.05, 0.2)
TRACK: dict[Size, str] = {
    "smoke": "step_facts:every=2,path:examples=32,certificate:examples=500,probe=16",
    "laptop": "step_facts:every=10,path:every=160,certificate:every=160,examples=2000,probe=64",
    "paper": "step_facts:every=100,path,certificate",
}
POINTS = (0.0, 0.25, 0.5, 0.75, 1.0)
COLUMNS = (
    Column("share", "κ_min ≥ −‖∇L‖/ρ, % of probes", percent=True, digits=0),
    Column("r", "r of κ_min and t"),
    Column("early", "λ, first fifth", digits=3),
    Column("late", "λ, last fifth", digits=3),
)
MOST = 0.9


def grid(size: Size) -> dict[str, Arm]:
    """SAM at two radii, on a network without kinks, for the lemmas want second derivatives."""
    return {f"ρ = {rho:g}": finished(f"sam:rho={rho}", size, smooth=True, track=TRACK[size]) for rho in RADII}


def analyse(runs: Runs) -> Analysis:
    """Check the assumption, the shape of κ_min along the climb, λ, and every inequality at every probe."""
    found = {arm: {seed: _of_run(run.tracked()) for seed, run in runs[arm].items()} for arm in runs.found}
    rows = [
        Row(arm, measured={c.key: spread(_known(by_seed, c.key)) for c in COLUMNS}) for arm, by_seed in found.items()
    ]
    every = [values for by_seed in found.values() for values in by_seed.values()]
    small = list(next(iter(found.values()), {}).values())  # the published radius
    violated = sum(values["violated"] for values in every)
    checked = sum(values["checked"] for values in every)
    growth = [values["late"] - values["early"] for values in small if math.isfinite(values["late"])]
    shares = [values["share"] for values in small if math.isfinite(values["share"])]
    numbers = {
        "violated inequalities": Estimate(violated, n=len(every)),
        "inequalities checked": Estimate(checked, n=len(every)),
        f"share of probes with κ_min ≥ −‖∇L‖/ρ at ρ = {RADII[0]:g}": Estimate(spread(shares).mean, n=len(shares)),
        "r of κ_min and t along the climb": mean([values["r"] for values in small if math.isfinite(values["r"])]),
        "λ in the last fifth − in the first": mean(growth),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _of_run(records: list[dict[str, float]]) -> dict[str, float]:
    paths = [record for record in records if "path/bound" in record]
    checks = [record for record in records if "certificate/violated" in record]
    lam = [record["step/lam"] for record in records if record.get("step/lam") is not None]
    fifth = max(1, len(lam) // 5)
    slopes = [correlation([(t, record[f"path/kappa_min@{t:g}"]) for t in POINTS]) for record in paths]
    return {
        "violated": sum(record["certificate/violated"] for record in checks),
        "checked": sum("slack/" in key for record in checks for key in record),
        "share": statistics.fmean(r["path/kappa_min"] >= r["path/bound"] for r in paths) if paths else math.nan,
        "r": statistics.fmean(slopes) if slopes else math.nan,
        "early": statistics.fmean(lam[:fifth]) if lam else math.nan,
        "late": statistics.fmean(lam[-fifth:]) if lam else math.nan,
    }


def _known(by_seed: Mapping[int, Mapping[str, float]], key: str) -> dict[int, float]:
    return {seed: values[key] for seed, values in by_seed.items() if math.isfinite(values[key])}


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for no violation, and for what the figures show."""
    violated, checked, share, slope, growth = numbers.values()
    return together([
        none_of(violated, checked, "proven inequalities"),
        true_if(
            share.value >= MOST if share.is_known else None,
            f"κ_min ≥ −‖∇L‖/ρ at {share:.0%} of the probes, ρ = {RADII[0]:g}",
        ),
        below(slope, 0, "r of κ_min and t along the climb"),
        above(growth, 0, "λ in the last fifth − in the first"),
    ])


@STUDIES.register("a13")
def a13() -> Study:
    """The theory's inequalities hold, κ_min falls along SAM's climb, and λ grows late in training."""
    return Study(
        question="Do the inequalities behind SAM's calibration hold at every probe, and does λ grow?",
        published={},
        source="CSAM paper, fig. 2 and S4, lemmas 1–2 (with the norm not squared), theorems 1–3",
        rule="Held if no proven inequality is violated at any probe at either radius where its conditions hold, and "
        f"at ρ = {RADII[0]:g}, as published, κ_min ≥ −‖∇L‖/ρ on the whole climb at {MOST:.0%} of the probes or more, "
        "the correlation of κ_min with t is below 0 with its 95 % interval over seeds, and λ is larger in the last "
        f"fifth of training than in the first with its interval. ρ = {RADII[1]:g}, which the paper says violates the "
        "bound, is shown, not judged.",
        fixed=SECOND_ROUND,
        differs="a small tanh network on clothes",
        headline=Headline("λ in the last fifth − in the first"),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=FIRST_SEED,
        drawings=(Drawing("kappa"),),
    )
