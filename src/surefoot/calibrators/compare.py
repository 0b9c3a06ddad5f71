"""Which calibrator to use, by cross-validation, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from surefoot.calibrators._base import Array, Calibrator, fit
from surefoot.calibrators._fitting import check_fitting_data
from surefoot.errors import InputError
from surefoot.registry import CALIBRATORS, METRICS
from surefoot.schema import Predictions
from surefoot.seeding import generator as make_generator

NONE = "none"


@dataclass(frozen=True)
class Candidate:
    """A calibrator's scores on examples it was not fitted on."""

    name: str
    nll: float
    brier: float
    ece: float
    accuracy: float
    n_parameters: int
    above_best: float
    """Mean NLL less that of the best."""
    standard_error: float
    """Of that difference, over the same examples."""
    risk_ece: float | None = None
    """Of two classes: ECE of the probability of one of them, which the confidence of the likelier one can hide."""


@dataclass(frozen=True)
class CalibratorComparison:
    """All candidates from the smallest NLL up, the one to use, and why."""

    candidates: tuple[Candidate, ...]
    best: str
    reason: str
    n_folds: int
    calibrator: Calibrator | None
    """The one to use, fitted on all examples; None when nothing is to be repaired."""
    left_out: tuple[str, ...]
    """Calibrators with more parameters than examples to fit them."""


def compare_calibrators(
    predictions: Predictions,
    names: Iterable[str] | None = None,
    *,
    n_folds: int = 5,
    generator: torch.Generator | None = None,
) -> CalibratorComparison:
    """Fit calibrators on parts of the examples, score them on the rest, and choose.

    The NLL decides, because it is a proper score: it rewards calibration without forgiving lost sharpness. Among
    those whose NLL is within one standard error of the smallest, the one with the fewest parameters is used.

    Args:
        predictions: Of the calibration split.
        names: Calibrators as for :func:`fit`; all registered ones when left out. Doing nothing is always a candidate.
        n_folds: Into how many parts the examples are divided.
        generator: Divides the examples; the same way each time when left out.

    Returns:
        The comparison.

    Raises:
        InputError: If there are fewer examples than folds.
    """
    logits, labels = (tensor.numpy() for tensor in check_fitting_data(predictions))
    n, n_classes = logits.shape
    if not 2 <= n_folds <= n:
        raise InputError(f"Expected 2 to {n} folds for {n} examples, but got {n_folds}. 5 is usual.")
    listed = names if names is not None else [part.name for part in CALIBRATORS]
    wanted = [name for name in dict.fromkeys(listed) if name != NONE]
    many = [name for name in wanted if _has_class_pairs(name) and n_classes**2 > n]
    order = torch.randperm(n, generator=generator or make_generator(0, "folds")).numpy()
    folds = [np.sort(fold) for fold in np.array_split(order, n_folds)]
    probs = {NONE: torch.from_numpy(np.asarray(logits, np.float64)).softmax(1).numpy()}
    sizes = {NONE: 0}
    for name in (name for name in wanted if name not in many):
        probs[name], sizes[name] = _out_of_fold(name, predictions, folds)
    candidates = _score(probs, sizes, labels)
    best, reason = _choose(candidates)
    fitted = fit(best, predictions) if best != NONE else None
    return CalibratorComparison(candidates, best, reason, n_folds, fitted, tuple(many))


def _has_class_pairs(name: str) -> bool:
    return bool(CALIBRATORS.read(name)[0].facts.get("class_pairs"))


def _out_of_fold(name: str, predictions: Predictions, folds: list[np.ndarray[Any, Any]]) -> tuple[Array, int]:
    """Return each example's probabilities from the calibrator that has not seen it."""
    probs = np.empty(predictions.logits.shape)
    for fold in folds:
        rest = np.delete(np.arange(len(probs)), fold)
        fitted = fit(name, predictions.rows(rest))
        probs[fold] = fitted.probs(predictions.logits[fold])
    return probs, fitted.n_parameters


def _score(probs: dict[str, Array], sizes: dict[str, int], labels: np.ndarray[Any, Any]) -> tuple[Candidate, ...]:
    with np.errstate(divide="ignore"):
        losses = {name: -np.log(p[np.arange(len(labels)), labels]) for name, p in probs.items()}
    best = min(losses, key=lambda name: (losses[name].mean(), sizes[name]))
    found = []
    for name, p in probs.items():
        scores = {
            key: METRICS[key].build(torch.from_numpy(p), torch.from_numpy(labels)).item()
            for key in ("nll", "brier", "ece", "accuracy")
        }
        with np.errstate(invalid="ignore"):
            above = losses[name] - losses[best]
            error = float(above.std(ddof=1) / math.sqrt(len(labels))) if len(labels) > 1 else math.inf
        found.append(
            Candidate(
                name,
                n_parameters=sizes[name],
                above_best=float(above.mean()),
                standard_error=error,
                risk_ece=_risk_ece(p, labels) if p.shape[1] == 2 else None,
                **scores,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.nll, each.n_parameters)))


def _risk_ece(probs: Array, labels: np.ndarray[Any, Any]) -> float:
    return METRICS["classwise_ece"].build(torch.from_numpy(probs), torch.from_numpy(labels)).item()  # type: ignore[no-any-return]  # a metric gives a tensor


def _choose(candidates: tuple[Candidate, ...]) -> tuple[str, str]:
    first = candidates[0]
    close = [each for each in candidates if each.above_best <= each.standard_error]
    chosen = min(close, key=lambda each: (each.n_parameters, each.nll)) if close else first
    plain = next(each for each in candidates if each.name == NONE)
    if chosen.name == NONE:
        if first.name == NONE:
            return NONE, f"no calibrator has a smaller NLL than {plain.nll:.4f}: leave the predictions as they are."
        return NONE, (
            f"{first.name} lowers the NLL from {plain.nll:.4f} to {first.nll:.4f}, which is within one standard error "
            f"({plain.standard_error:.4f}): leave the predictions as they are."
        )
    gain = f"{chosen.name} lowers the NLL from {plain.nll:.4f} to {chosen.nll:.4f} on examples it was not fitted on"
    if chosen is first:
        return chosen.name, f"{gain}, further than any other."
    return chosen.name, (
        f"{gain}. {first.name} reaches {first.nll:.4f}, but the difference is within one standard error "
        f"({chosen.standard_error:.4f}), and {chosen.name} has fewer parameters: {chosen.n_parameters} instead of "
        f"{first.n_parameters}."
    )
