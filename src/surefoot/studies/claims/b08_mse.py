"""B8: squared error ends at confidence e/(e + K − 1), and neither ECE nor curvature collapses."""

from __future__ import annotations

import math
from collections.abc import Mapping

from surefoot.evaluate import measures_of
from surefoot.records import RunFolder
from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean, spread
from surefoot.studies._coupling import coupled, label
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above, below, together

K = 10
OPTIMUM = math.e / (math.e + K - 1)
RATES = {"gd": (0.2, 0.4), "sgd": (0.1, 0.2)}
COLUMNS = (
    Column("confidence", "mean train confidence", digits=3),
    Column("accuracy", "train accuracy %", percent=True, digits=1),
    Column("ece", "last / peak train ECE"),
    Column("sharpness", "last / peak sharpness"),
)
PUBLISHED = {"at the optimum": {"confidence": round(OPTIMUM, 3)}}
NEAR = 0.1


def grid(size: Size) -> dict[str, Arm]:
    """Squared error under GD and SGD."""
    return {label(name, lr): coupled(name, lr, size, loss="mse") for name, rates in RATES.items() for lr in rates}


def analyse(runs: Runs) -> Analysis:
    """Return confidence on the training split and how much ECE and sharpness keep of their peaks."""
    confidence = {arm: {seed: _confidence(run) for seed, run in runs[arm].items()} for arm in runs.found}
    kept = {key: {arm: _kept(runs, arm, key) for arm in runs.found} for key in ("train/ece", "gn_sharpness/value")}
    rows = [
        Row(
            arm,
            measured={
                "confidence": spread(confidence[arm]),
                "accuracy": spread(runs.measure(arm, "accuracy", split="train")),
                "ece": spread(kept["train/ece"][arm]),
                "sharpness": spread(kept["gn_sharpness/value"][arm]),
            },
        )
        for arm in runs.found
    ]
    rows += [Row(name, values) for name, values in PUBLISHED.items()]
    off = [abs(value - OPTIMUM) for by_seed in confidence.values() for value in by_seed.values()]
    numbers = {
        "distance of train confidence from e/(e + K − 1)": mean(off),
        "last / peak train ECE": mean([v for by_seed in kept["train/ece"].values() for v in by_seed.values()]),
        "last / peak sharpness": mean([v for by_seed in kept["gn_sharpness/value"].values() for v in by_seed.values()]),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _confidence(run: RunFolder) -> float:
    bins = measures_of(run, ["reliability"], split="train")["reliability"]["bins"]
    pairs = [(n, c) for n, c in zip(bins["count"], bins["confidence"], strict=True) if n]
    return float(sum(n * c for n, c in pairs) / sum(n for n, _ in pairs))


def _kept(runs: Runs, arm: str, key: str) -> dict[int, float]:
    found = {seed: [values[0] for values in steps.values()] for seed, steps in runs.series(arm, key).items()}
    return {seed: values[-1] / max(values) for seed, values in found.items() if values and max(values) > 0}


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for confidence near the optimum, and for no collapse."""
    off, ece, sharpness = numbers.values()
    return together([
        below(off, NEAR, "distance of train confidence from .232"),
        above(ece, 0.5, "last / peak train ECE"),
        above(sharpness, 0.5, "last / peak sharpness"),
    ])


@STUDIES.register("b8")
def b8() -> Study:
    """Squared error ends under-confident; ECE and curvature do not collapse."""
    return Study(
        question="Does squared error end at confidence e/(e + K − 1), with ECE and curvature that do not collapse?",
        published=PUBLISHED,
        source="Too Sharp, Too Sure, app. D",
        rule=f"Held if mean confidence on the training split ends within {NEAR:g} of e/(e + 9) = .232, and train ECE "
        "and Gauss–Newton sharpness end above half their peaks, means over runs with their 95 % intervals; did not "
        "hold if one lies on the other side with its interval; else not resolved.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 1, "paper": 1},
        drawings=(Drawing("dynamics", "gd"), Drawing("dynamics", "sgd"), Drawing("reliability")),
    )
