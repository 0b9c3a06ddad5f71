"""B8: squared error ends at confidence e/(e + K − 1), and neither ECE nor curvature collapses."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from surefoot.records import RunFolder
from surefoot.registry import STUDIES
from surefoot.statistics import Estimate, mean, spread
from surefoot.studies._arms import FIRST_SEED
from surefoot.studies._coupling import coupled, label, over_rates
from surefoot.studies._rules import SECOND_ROUND
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import above, below, together

K = 10
OPTIMUM = math.e / (math.e + K - 1)
RATES = (0.1, 0.2)
STEPS = 12_000
COLUMNS = (
    Column("confidence", "mean train confidence", digits=3),
    Column("accuracy", "train accuracy %", percent=True, digits=1),
    Column("ece", "last / peak train ECE"),
    Column("sharpness", "last / peak sharpness"),
)
PUBLISHED = {"at the optimum": {"confidence": round(OPTIMUM, 3)}}
NEAR = 0.1


def grid(size: Size) -> dict[str, Arm]:
    """Squared error under SGD."""
    return {label("sgd", lr): coupled("sgd", lr, size, loss="mse", steps=STEPS) for lr in RATES}


def analyse(runs: Runs) -> Analysis:
    """Return confidence on the training split and how much ECE and sharpness keep of their peaks."""
    confidence = {arm: runs.compute(arm, "mean confidence, train", _confidence) for arm in runs.found}
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
    arms = list(runs.found)
    off = over_rates(arms, lambda arm: {seed: abs(value - OPTIMUM) for seed, value in confidence[arm].items()})
    numbers = {
        "distance of train confidence from e/(e + K − 1)": mean(list(off.values())),
        "last / peak train ECE": mean(list(over_rates(arms, lambda arm: kept["train/ece"][arm]).values())),
        "last / peak sharpness": mean(list(over_rates(arms, lambda arm: kept["gn_sharpness/value"][arm]).values())),
    }
    return Analysis(Table(COLUMNS, tuple(rows)), numbers)


def _confidence(run: RunFolder) -> float:
    from scipy.special import softmax  # takes a while to import

    return float(softmax(run.predictions("train").logits.astype(np.float64), axis=1).max(axis=1).mean())


def _kept(runs: Runs, arm: str, key: str) -> dict[int, float]:
    """Divide the last value by the largest on the way; the untrained network is not on it."""
    every = runs.series(arm, key).items()
    found = {seed: [values[0] for step, values in steps.items() if step] for seed, steps in every}
    return {seed: values[-1] / max(values) for seed, values in found.items() if values and max(values) > 0}


def judge(numbers: Mapping[str, Estimate]) -> Finding:
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
        rule="Averaged over two learning rates, with 95 % intervals over seeds: held if mean confidence on the "
        f"training split ends within {NEAR:g} of e/(e + 9) = .232, and train ECE and Gauss–Newton sharpness end above "
        "half their peaks after the first step.",
        fixed=SECOND_ROUND,
        headline=Headline("distance of train confidence from e/(e + K − 1)", limit=NEAR, is_lower=True),
        grid=grid,
        analyse=analyse,
        judge=judge,
        seeds={"smoke": 1, "laptop": 3, "paper": 3},
        first_seed=FIRST_SEED,
        drawings=(Drawing("dynamics"), Drawing("reliability")),
    )
