"""Which calibrator to use, by cross-validation, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit

from surefoot.calibrators._base import Array, Calibrator, fit
from surefoot.calibrators._fitting import check_fitting_data
from surefoot.errors import InputError
from surefoot.registry import CALIBRATORS, METRICS
from surefoot.schema import Predictions
from surefoot.seeding import generator as make_generator

NONE = "none"
SLOW = 2.0  # seconds that one fit may take, as far as can be guessed, unless it was asked for by name
LEVEL = 0.95
OnStep = Callable[[int, int, str], None]  # how many fits are done, of how many, and what comes next


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
    change: float = 0.0
    """Mean NLL less that of doing nothing, over the same examples."""
    change_low: float = 0.0
    """Lower end of its 95 % interval."""
    change_high: float = 0.0
    """Upper end of its 95 % interval."""


@dataclass(frozen=True)
class CalibratorComparison:
    """All candidates from the smallest NLL up, the one to use, and why."""

    candidates: tuple[Candidate, ...]
    best: str
    reason: str
    n_folds: int
    calibrator: Calibrator | None
    """The one to use, fitted on all examples; None when nothing is to be repaired."""
    left_out: Mapping[str, str]
    """Calibrators that were not compared, and why."""


def compare_calibrators(
    predictions: Predictions,
    names: Iterable[str] | None = None,
    *,
    n_folds: int = 5,
    generator: torch.Generator | None = None,
    on_step: OnStep | None = None,
) -> CalibratorComparison:
    """Fit calibrators on parts of the examples, score them on the rest, and choose.

    The NLL decides, because it is a proper score: it rewards calibration without forgiving lost sharpness. Among
    those whose NLL is within one standard error of the smallest, the one with the fewest parameters is used. Rows count
    by their weights, in fits and in scores.

    Args:
        predictions: Of the calibration split.
        names: Calibrators as for :func:`fit`; all registered ones when left out, but for those that have more
            parameters than there are examples, or would take long. Doing nothing is always a candidate.
        n_folds: Into how many parts the examples are divided.
        generator: Divides the examples; the same way each time when left out.
        on_step: Called before every fit.

    Returns:
        The comparison.

    Raises:
        InputError: If there are fewer examples than folds.
    """
    _, labels = (tensor.numpy() for tensor in check_fitting_data(predictions, any_columns=True))
    if predictions.weights is not None:
        predictions = predictions.rows(np.asarray(predictions.weights) > 0)
    n = len(predictions.logits)
    if not 2 <= n_folds <= n:
        raise InputError(f"Expected 2 to {n} folds for {n} examples, but got {n_folds}. 5 is usual.")
    listed = names if names is not None else [part.name for part in CALIBRATORS]
    wanted = [name for name in dict.fromkeys(listed) if name != NONE]
    reasons = {name: _why_not(name, predictions, asked=names is not None) for name in wanted}
    compared = [name for name in wanted if not reasons[name]]
    order = torch.randperm(n, generator=generator or make_generator(0, "folds")).numpy()
    folds = [np.sort(fold) for fold in np.array_split(order, n_folds)]
    probs = {NONE: torch.from_numpy(np.asarray(predictions.logits, np.float64)).softmax(1).numpy()}
    sizes, total = {NONE: 0}, len(compared) * n_folds + 1
    for number, name in enumerate(compared):
        step = None if on_step is None else _steps(on_step, number * n_folds, total, name)
        probs[name], sizes[name] = _out_of_fold(name, predictions, folds, step)
    candidates = _score(probs, sizes, labels, predictions.weights)
    best, reason = _choose(candidates)
    if on_step is not None:
        on_step(total - 1, total, best)
    fitted = fit(best, predictions) if best != NONE else None
    left_out = {name: reason for name, reason in reasons.items() if reason}
    return CalibratorComparison(candidates, best, reason, n_folds, fitted, left_out)


def _why_not(name: str, predictions: Predictions, *, asked: bool) -> str:
    """Return why a calibrator is left out; nothing where it is compared."""
    facts = CALIBRATORS.read(name)[0].facts
    n, k = predictions.logits.shape
    if predictions.form == "choices" and not facts.get("any_columns"):
        return "columns mean something else in every row"
    if facts.get("class_pairs") and k**2 > n:
        return "more parameters than rows"
    if asked:
        return ""
    if "parameters" in facts and facts["parameters"](k) > n:
        return "more parameters than rows"
    if "seconds" in facts and facts["seconds"](n, k) > SLOW:
        return f"would take long with {n:,} rows of {k:,} classes; ask for it by name"
    return ""


def _steps(on_step: OnStep, before: int, total: int, name: str) -> Callable[[int], None]:
    return lambda done: on_step(before + done, total, name)


def _out_of_fold(
    name: str, predictions: Predictions, folds: list[np.ndarray[Any, Any]], on_fold: Callable[[int], None] | None
) -> tuple[Array, int]:
    """Return each example's probabilities from the calibrator that has not seen it."""
    probs = np.empty(predictions.logits.shape)
    for number, fold in enumerate(folds):
        if on_fold is not None:
            on_fold(number)
        rest = np.delete(np.arange(len(probs)), fold)
        fitted = fit(name, predictions.rows(rest))
        probs[fold] = fitted.probs(predictions.logits[fold])
    return probs, fitted.n_parameters


def _score(
    probs: dict[str, Array], sizes: dict[str, int], labels: np.ndarray[Any, Any], weights: Array | None
) -> tuple[Candidate, ...]:
    with np.errstate(divide="ignore"):
        losses = {name: -np.log(p[np.arange(len(labels)), labels]) for name, p in probs.items()}
    share = np.full(len(labels), 1 / len(labels)) if weights is None else weights / np.sum(weights)
    best = min(losses, key=lambda name: (losses[name] @ share, sizes[name]))
    found = []
    for name, p in probs.items():
        scores = {key: _measure(key, p, labels, weights) for key in ("nll", "brier", "ece", "accuracy")}
        above, error, _, _ = _difference(losses[name], losses[best], share)
        change, _, low, high = _difference(losses[name], losses[NONE], share)
        found.append(
            Candidate(
                name,
                n_parameters=sizes[name],
                above_best=above,
                standard_error=error,
                risk_ece=_measure("classwise_ece", p, labels, weights) if p.shape[1] == 2 else None,
                change=change,
                change_low=low,
                change_high=high,
                **scores,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.nll, each.n_parameters)))


def _difference(a: Array, b: Array, share: Array) -> tuple[float, float, float, float]:
    """Return the mean of A − B over the same rows, its standard error, and both ends of its interval.

    Rows of different weight are as good as (Σw)² / Σw² rows that count alike. A few confident errors make losses
    skewed; the ends are those of Hall's transformation of Student's t, which takes the skewness out (Hall 1992).
    """
    with np.errstate(invalid="ignore"):
        apart = a - b
        mean = float(apart @ share)
        effective = 1 / float(share @ share)
        if effective <= 1 + 1e-9:
            return mean, math.inf, -math.inf, math.inf
        spread = float(share**2 @ (apart - mean) ** 2)
        error = math.sqrt(spread * effective / (effective - 1)) if spread >= 0 else math.nan
        if not error > 0:
            return mean, error, mean, mean
        variance = float(share @ (apart - mean) ** 2)
        skewness = float(share @ (apart - mean) ** 3) / variance**1.5
    reach = float(stdtrit(effective - 1, (1 + LEVEL) / 2))
    scale = error * math.sqrt(effective)
    low, high = (mean - scale * _unskewed(y / math.sqrt(effective), skewness, effective) for y in (reach, -reach))
    return mean, error, low, high


def _unskewed(y: float, skewness: float, n: float) -> float:
    """Invert T + γ T² / 3 + γ² T³ / 27 + γ / 6n."""
    if abs(skewness) < 1e-6:
        return y
    return 3 / skewness * (math.cbrt(1 + skewness * (y - skewness / (6 * n))) - 1)


def _measure(key: str, probs: Array, labels: np.ndarray[Any, Any], weights: Array | None) -> float:
    counted = () if weights is None else (torch.from_numpy(np.asarray(weights, np.float64)),)
    value: float = METRICS[key].build(torch.from_numpy(probs), torch.from_numpy(labels), *counted).item()
    return value


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
    gain = (
        f"{chosen.name} lowers the NLL from {plain.nll:.4f} to {chosen.nll:.4f} on examples it was not fitted on, by "
        f"{show_gain(chosen)}"
    )
    if chosen is first:
        return chosen.name, f"{gain}, further than any other."
    return chosen.name, (
        f"{gain}. {first.name} reaches {first.nll:.4f}, but the difference is within one standard error "
        f"({chosen.standard_error:.4f}), and {chosen.name} has fewer parameters: {chosen.n_parameters} instead of "
        f"{first.n_parameters}."
    )


def show_gain(each: Candidate) -> str:
    """Write by how much a candidate lowers the NLL, with its interval."""
    if not math.isfinite(each.change):
        return "more than can be counted, from an infinite NLL"
    return f"{-each.change:.4f} (95 % interval {-each.change_high:.4f} to {-each.change_low:.4f})"
