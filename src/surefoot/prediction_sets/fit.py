"""Fit prediction sets on rows with labels: split conformal prediction."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from surefoot.calibrators import Calibrator
from surefoot.errors import InputError
from surefoot.prediction_sets._draws import Array, draws_of
from surefoot.prediction_sets._quantile import WeightsAre, check_coverage, least_rows, threshold
from surefoot.prediction_sets._rows import check_rows, probs_of
from surefoot.prediction_sets.sets import PredictionSets, score
from surefoot.registry import SETS
from surefoot.schema import PartSpec, Predictions
from surefoot.seeding import generator as make_generator

CHOSEN_ON = 0.2  # of the rows, where a score has options to choose
_VALUES_AT_ONCE = 1 << 20


def fit_sets(
    predictions: Predictions,
    method: str = "lac",
    *,
    coverage: float = 0.9,
    per_class: bool = False,
    calibrator: Calibrator | None = None,
    weights_are: WeightsAre = "importance",
    generator: torch.Generator | None = None,
) -> PredictionSets:
    """Fit sets that hold the true class of a new row with probability ``coverage`` or more.

    That holds on average over rows to fit on and one new row, if all of these are exchangeable, whatever the model is;
    with ``per_class``, for the rows of each class. Options that the score leaves to be chosen are chosen on a fifth of
    the rows, at random, and thresholds are taken from the others.

    Args:
        predictions: Of the calibration split, which the model has not been trained on.
        method: ``"lac"``, ``"aps"``, ``"raps"``, with options such as ``"raps:k_reg=5,lam=0.01"``, or your own score as
            ``"mypkg.parts:my_score"``.
        coverage: How often the true class is to be in the set.
        per_class: Take a threshold for each class from its own rows.
        calibrator: Puts probabilities right first. Fitted on other rows than these, or the guarantee is lost.
        weights_are: Whether ``predictions.weights`` say how much a row represents, or how often it stands there.
        generator: Divides the rows and seeds randomised scores; the same way each time when left out.

    Returns:
        The sets.

    Raises:
        InputError: If there is nothing to fit on, or too little to choose options on.

    Example:
        >>> rows = np.log([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
        >>> sets = fit_sets(Predictions(rows, np.array([0, 0, 1, 1]), "calibration"), coverage=0.8)
        >>> round(sets.thresholds[0], 6)  # the largest of four scores: −p of the row that was least sure of the truth
        -0.4
    """
    check_coverage(coverage)
    if weights_are not in ("importance", "counts"):
        raise InputError(f"Expected weights to be importance or counts, but got {weights_are!r}. Choose one.")
    spec = SETS.parse(method)
    logits, labels, weights = check_rows(predictions)
    if per_class and predictions.form == "choices":
        raise InputError(
            "Expected classes that mean the same in every row for sets per class, but these are choices. Leave it out."
        )
    generator = generator or make_generator(0, "prediction sets")
    seed = int(torch.randint(2**62, (1,), generator=generator))
    ready = logits if calibrator is None else calibrator.logits(logits)
    kept = np.arange(len(labels))
    choose = SETS[spec.name].facts.get("choose")
    if choose is not None and None in spec.options.values():
        order = torch.randperm(len(labels), generator=generator).numpy()
        first = max(1, round(CHOSEN_ON * len(labels)))
        chosen, kept = np.sort(order[:first]), np.sort(order[first:])
        _check_enough(first, len(labels), coverage, spec)
        probs = probs_of(ready[chosen])
        some = None if weights is None else weights[chosen]
        options = choose(probs, labels[chosen], draws_of(probs, seed), coverage, spec.options, some, weights_are)
        spec = dataclasses.replace(spec, options=options)
    scores = _true_scores(str(spec), ready[kept], labels[kept], seed)
    parts = [labels[kept] == k for k in range(logits.shape[1])] if per_class else [np.full(len(kept), True)]
    return PredictionSets(
        method=str(spec),
        coverage=float(coverage),
        thresholds=tuple(_threshold(scores, part, weights, kept, coverage, weights_are) for part in parts),
        rows=tuple(int(part.sum()) for part in parts),
        n_classes=logits.shape[1],
        fitted_on=predictions.split,
        class_names=tuple(predictions.class_names),
        seed=seed,
        calibrator=calibrator,
        weighted=weights is not None,
        form=predictions.form,
    )


def _check_enough(first: int, n: int, coverage: float, spec: PartSpec) -> None:
    least = least_rows(coverage)
    if first < least:
        raise InputError(
            f"Expected at least {round(least / CHOSEN_ON)} rows, to choose options of {spec.name} on a fifth of them, "
            f"but got {n}. Give the options, such as {spec.name}:k_reg=2,lam=0.01, or choose lac or aps."
        )


def _true_scores(method: str, logits: Array, labels: Array, seed: int) -> Array:
    found = np.empty(len(labels))
    step = max(1, _VALUES_AT_ONCE // logits.shape[1])
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        rows = score(method, probs_of(logits[part]), seed)
        found[part] = np.take_along_axis(rows, labels[part, None], axis=1)[:, 0]
    return found


def _threshold(
    scores: Array, part: Array, weights: Any, kept: Array, coverage: float, weights_are: WeightsAre
) -> float:
    some = None if weights is None else weights[kept][part]
    if some is not None and not some.any():  # no row of this class counts
        return np.inf
    return threshold(scores[part], coverage, some, weights_are=weights_are)
