"""A3: SAM's advantage holds during the whole training, in ECE more than in ECE after temperature scaling."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from surefoot.registry import STUDIES
from surefoot.statistics import NOTHING, Estimate, difference, mean, spread
from surefoot.studies._arms import FRESH_SEED, LOOKS, tuned
from surefoot.studies._rules import MIDWAY
from surefoot.studies._tables import ECE, TCE
from surefoot.studies.contract import Analysis, Arm, Drawing, Finding, Headline, Row, Size, Study, Table
from surefoot.studies.runs import Runs
from surefoot.studies.verdicts import LEAST_SEEDS, above, together, true_if

KEYS = {"ece": "test/ece", "tce": "test/tce"}
MOST = 0.9  # of the looks
TRACK: dict[Size, str] = {"smoke": "tce", "laptop": f"tce:every={LOOKS}", "paper": "tce"}


def grid(size: Size) -> dict[str, Arm]:
    """SGD and SAM, tuned and watched on the way."""
    return tuned(("sgd", "sam"), size, track=TRACK[size])


def analyse(runs: Runs) -> Analysis:
    """Average over training what SGD's error is above SAM's, and count the looks at which it is."""
    runs = runs.tuned()
    averages = {(arm, name): _over_looks(runs, arm, name) for arm in ("sgd", "sam") for name in KEYS}
    rows = [
        Row(f"{arm}, mean over looks", measured={name: spread(averages[arm, name]) for name in KEYS})
        for arm in ("sgd", "sam")
    ]
    gaps = {
        name: {seed: averages["sgd", name][seed] - averages["sam", name][seed] for seed in averages["sgd", name]}
        for name in KEYS
        if averages["sgd", name].keys() == averages["sam", name].keys()
    }
    numbers = {
        "ECE advantage, mean over looks": mean(list(gaps.get("ece", {}).values())),
        "ECE advantage − TCE advantage": difference(gaps.get("ece", {}), gaps.get("tce", {})),
        "share of looks ahead in ECE": _share_ahead(runs),
    }
    return Analysis(Table((ECE, TCE), tuple(rows)), numbers, runs)


def _over_looks(runs: Runs, arm: str, name: str) -> dict[int, float]:
    """Average over training without the untrained network, over the moments at which both were measured."""
    place = list(KEYS).index(name)
    every = runs.series(arm, *KEYS.values())
    found = {seed: [at[place] for step, at in steps.items() if step] for seed, steps in every.items()}
    return {seed: statistics.fmean(values) for seed, values in found.items() if values}


def _share_ahead(runs: Runs) -> Estimate:
    """Count looks at which SGD's mean ECE over seeds is above SAM's."""
    sgd, sam = (list(runs.series(arm, *KEYS.values()).values()) for arm in ("sgd", "sam"))
    if not sgd or not sam:
        return NOTHING
    steps = [step for step in sgd[0] if step and all(step in seen for seen in (*sgd, *sam))]
    ahead = [
        statistics.fmean(seen[step][0] for seen in sgd) > statistics.fmean(seen[step][0] for seen in sam)
        for step in steps
    ]
    return Estimate(spread(ahead).mean, n=min(len(sgd), len(sam)))


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for both advantages above 0 and nine looks in ten."""
    share = numbers["share of looks ahead in ECE"]
    return together([
        above(numbers["ECE advantage, mean over looks"], 0, "the ECE advantage, mean over looks,"),
        true_if(share.value >= MOST if share.n >= LEAST_SEEDS else None, f"ahead at {share:.0%} of the looks"),
        above(numbers["ECE advantage − TCE advantage"], 0, "what ECE gains beyond TCE"),
    ])


@STUDIES.register("a3")
def a3() -> Study:
    """SAM's advantage holds during the whole training, in ECE more than in TCE."""
    return Study(
        question="Is SAM ahead of SGD throughout training, and further ahead in ECE than after temperature scaling?",
        published={},
        source="CSAM paper, fig. 3c-d (curves)",
        rule="Tuned as in A1, on the perceptron. Held if SGD's ECE minus SAM's, averaged over ten looks, is above 0 "
        f"with its 95 % interval over seeds, SGD's mean ECE is above SAM's at {MOST:.0%} of the looks or more, and the "
        "advantage in ECE exceeds that in ECE after temperature scaling with its interval.",
        fixed=MIDWAY,
        differs="a small network on clothes",
        headline=Headline("ECE advantage, mean over looks", percent=True),
        first_seed=FRESH_SEED,
        grid=grid,
        analyse=analyse,
        judge=judge,
        drawings=(Drawing("ece_curves"),),
    )
