"""C4: whose probabilities are closest to people's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from surefoot.records import RunFolder
from surefoot.registry import CALIBRATORS, STUDIES
from surefoot.schema import Predictions
from surefoot.statistics import Estimate, difference, spearman
from surefoot.studies import _data
from surefoot.studies._arms import AUTO, DEEP, LATER_SEED, residual
from surefoot.studies._rules import NEW_LONGER
from surefoot.studies._tables import ACCURACY, ECE, NLL, extended_table, metrics_table
from surefoot.studies.contract import Analysis, Arm, Column, Drawing, Finding, Headline, Size, Study
from surefoot.studies.runs import BySeed, Runs
from surefoot.studies.verdicts import above, together

WORTH = 0.01  # nats
METHODS = ("sgd", "sam", "csam", "label_smoothing", "focal", "mixup", *AUTO)
KL = Column("kl", "KL from people, nats", digits=3)
KL_T = Column("kl/t", "KL from people after T, nats", digits=3)
DISTANCE = Column("distance", "total variation from people")
RANKS = Column("ranks", "rank correlation of entropies")
Array = np.ndarray[Any, np.dtype[np.float64]]


def grid(size: Size) -> dict[str, Arm]:
    """Ways to train the residual network, tuned, all tested on the published test images, on which people voted."""
    return residual(METHODS[:3] if size == "smoke" else METHODS, size)


def analyse(runs: Runs) -> Analysis:
    """Measure how far from the votes of about fifty people the probabilities are."""
    for arm, key in product(runs.found, READ):  # also of settings that are not chosen, so that every run keeps it
        _beside_people(runs, arm, key)
    chosen = runs.tuned()
    names = {arm: arm.removesuffix(DEEP) for arm in chosen.found}
    found = {key: {names[arm]: _beside_people(chosen, arm, key) for arm in names} for key in READ}
    numbers = {}
    for name in (name for name in names.values() if name != "sgd"):
        numbers[f"KL from people, SGD − {name}"] = difference(found[KL]["sgd"], found[KL][name])
        numbers[f"KL from people, SGD + T − {name} + T"] = difference(found[KL_T]["sgd"], found[KL_T][name])
    table = metrics_table(chosen, (ACCURACY, ECE, NLL), {}, names)
    return Analysis(extended_table(table, found), numbers, chosen)


def _beside_people(runs: Runs, arm: str, column: Column) -> BySeed:
    """Hold an arm's probabilities against the votes; nothing where the test images are others."""
    people = _data.votes()
    if people is None or any(run.data["examples"]["test"] != len(people) for run in runs[arm].values()):
        return {}
    measure, fitted = READ[column], column is KL_T
    return runs.compute(arm, f"people/{column.key}", lambda run: measure(people, _probabilities(run, fitted)))


def _probabilities(run: RunFolder, fitted: bool) -> Array:
    from scipy.special import softmax  # takes a while to import

    predictions: Predictions = run.predictions("test")
    if fitted:
        predictions = CALIBRATORS["temperature"].build(run.predictions("calibration"))(predictions)
    probs: Array = softmax(predictions.logits.astype(np.float64), axis=1)
    return probs


def divergence(people: Array, probs: Array) -> float:
    """Return the mean Kullback–Leibler divergence of predicted from people's distributions.

    Example:
        >>> round(divergence(np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])), 4)  # log(2)/2 + log(2/3)/2
        0.1438
    """
    from scipy.special import rel_entr

    return float(rel_entr(people, np.maximum(probs, 1e-300)).sum(1).mean())


def variation(people: Array, probs: Array) -> float:
    """Return the mean total variation distance."""
    return float(np.abs(people - probs).sum(1).mean() / 2)


def rank_correlation(people: Array, probs: Array) -> float:
    """Return Spearman's correlation of both entropies over examples."""
    from scipy.special import entr

    return spearman(entr(people).sum(1), entr(probs).sum(1))


READ: dict[Column, Callable[[Array, Array], float]] = {
    KL: divergence,
    DISTANCE: variation,
    RANKS: rank_correlation,
    KL_T: divergence,
}


def judge(numbers: Mapping[str, Estimate]) -> Finding:
    """Ask for CSAM nearer to people than SGD, both raw and behind a temperature."""
    names = ("KL from people, SGD − csam", "KL from people, SGD + T − csam + T")
    return together([above(numbers[name], 0, name, enough=WORTH) for name in names])


@STUDIES.register("c4")
def c4() -> Study:
    """CSAM's probabilities are closer to people's than SGD's, behind a temperature too."""
    return Study(
        question="On test images that about fifty people each have named: which method's probabilities are closest to "
        "theirs, and is CSAM closer than SGD?",
        published={},
        source="no paper: asked here; people's votes: CIFAR-10H",
        rule="All are tuned as in A1 on ResNet-8. Held if the mean Kullback–Leibler divergence of the predicted "
        "distribution from people's, SGD less CSAM, paired by seed, is above 0 with its 95 % interval, with nothing "
        "done and behind temperatures fitted on the calibration split; where it is not, an interval below 0.01 nats "
        "counts against it. The other methods, total variation and the rank correlation of predicted and people's "
        "entropies are shown, not judged.",
        fixed=NEW_LONGER,
        headline=Headline("KL from people, SGD + T − csam + T"),
        grid=grid,
        analyse=analyse,
        judge=judge,
        first_seed=LATER_SEED,
        drawings=(Drawing("reliability"), Drawing("ece_bars")),
    )
