"""A3: SAM's advantage holds during the whole training, in ECE more than in ECE after temperature scaling."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import NOTHING, Estimate, difference, mean, spread
from surefoot.studies._arms import RHO, finished
from surefoot.studies._tables import ECE, TCE
from surefoot.studies.contract import Analysis, Arm, Drawing, Row, Runs, Size, Study, Table, Verdict
from surefoot.studies.verdicts import above, together, true_if

KEYS = {"ece": "test/ece", "tce": "test/tce"}
MOST = 0.9  # of the epochs


def grid(size: Size) -> dict[str, Arm]:
    """SGD and SAM, watched at every epoch."""
    return {name: finished(method, size, track="tce") for name, method in _methods(size).items()}


def _methods(size: Size) -> dict[str, str]:
    return {"sgd": "sgd", "sam": f"sam:rho={RHO[size]}"}


def analyse(runs: Runs) -> Analysis:
    """Average over epochs what SGD's error is above SAM's, and count the epochs at which it is."""
    averages = {(arm, name): _over_epochs(runs, arm, key) for arm in ("sgd", "sam") for name, key in KEYS.items()}
    rows = [
        Row(f"{arm}, mean over epochs", measured={name: spread(averages[arm, name]) for name in KEYS})
        for arm in ("sgd", "sam")
    ]
    gaps = {
        name: {seed: averages["sgd", name][seed] - averages["sam", name][seed] for seed in averages["sgd", name]}
        for name in KEYS
        if averages["sgd", name].keys() == averages["sam", name].keys()
    }
    numbers = {
        "ECE advantage, mean over epochs": mean(list(gaps.get("ece", {}).values())),
        "ECE advantage − TCE advantage": difference(gaps.get("ece", {}), gaps.get("tce", {})),
        "share of epochs ahead in ECE": _share_ahead(runs),
    }
    return Analysis(Table((ECE, TCE), tuple(rows)), numbers)


def _over_epochs(runs: Runs, arm: str, key: str) -> dict[int, float]:
    """Average over training without the untrained network."""
    found = {seed: [at[0] for step, at in steps.items() if step] for seed, steps in runs.series(arm, key).items()}
    return {seed: statistics.fmean(values) for seed, values in found.items() if values}


def _share_ahead(runs: Runs) -> Estimate:
    """Count epochs at which SGD's mean ECE over seeds is above SAM's."""
    sgd, sam = (list(runs.series(arm, "test/ece").values()) for arm in ("sgd", "sam"))
    if not sgd or not sam:
        return NOTHING
    steps = [step for step in sgd[0] if step and all(step in seen for seen in (*sgd, *sam))]
    ahead = [
        statistics.fmean(seen[step][0] for seen in sgd) > statistics.fmean(seen[step][0] for seen in sam)
        for step in steps
    ]
    return Estimate(spread(ahead).mean, n=min(len(sgd), len(sam)))


def judge(numbers: Mapping[str, Estimate]) -> Verdict:
    """Ask for both advantages above 0 and nine epochs in ten."""
    share = numbers["share of epochs ahead in ECE"]
    return together([
        above(numbers["ECE advantage, mean over epochs"], 0, "the ECE advantage, mean over epochs,"),
        true_if(share.value >= MOST if share.is_known else None, f"ahead at {share:.0%} of the epochs"),
        above(numbers["ECE advantage − TCE advantage"], 0, "what ECE gains beyond TCE"),
    ])


@STUDIES.register("a3")
def a3() -> Study:
    """SAM's advantage holds during the whole training, in ECE more than in TCE."""
    return Study(
        question="Is SAM ahead of SGD throughout training, and further ahead in ECE than after temperature scaling?",
        published={},
        source="CSAM paper, fig. 3c-d (curves)",
        rule="Held if SGD's ECE minus SAM's, averaged over all epochs, is above 0 with its 95 % interval over seeds, "
        f"SGD's mean ECE is above SAM's at {MOST:.0%} of the epochs or more, and the advantage in ECE exceeds that in "
        "ECE after temperature scaling with its interval; did not hold if one of these fails for certain.",
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_curves"),),
    )
