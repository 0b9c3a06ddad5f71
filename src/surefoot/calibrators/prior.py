"""Prior correction: the same classes, but each as frequent as it is where the model is used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from surefoot.calibrators._base import Array, Calibrator
from surefoot.calibrators._classwise import fit_classwise
from surefoot.calibrators._fitting import count_rows, fitting_data, fitting_weights
from surefoot.errors import InputError, OptionError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

_ROUNDS = 2_000


@dataclass(frozen=True, eq=False)
class Prior(Calibrator):
    """Multiplies each class's probability by its own weight and divides by the sum: softmax(z + log w).

    Example:
        >>> import numpy as np
        >>> Prior(np.log([0.2, 1.8]), "calibration").probs(np.log([[0.9, 0.1]])).round(4)  # .18 and .18
        array([[0.5, 0.5]])
    """

    name: ClassVar[str] = "prior"
    log_weight: Array
    fitted_on: SplitName

    @staticmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Add the logarithms of the weights."""
        repaired: Tensor = logits + values.log_weight
        return repaired


def em_prior(probs: Array, prior: Array, weights: Array | None = None) -> tuple[Array, int]:
    """Find from unlabelled rows how frequent each class is among them, by expectation maximisation.

    Assumes label shift: within each class rows look as they did in training, and the probabilities were calibrated
    there. Each round corrects the probabilities by the present estimate and takes their mean for the next one; it ends
    where no share moves by more than 1e-9, or after 2,000 rounds. The likelihood of the rows rises in every round.

    Args:
        probs: Probabilities under the training prior, shape ``(n, classes)``.
        prior: Share of each class in the training data, shape ``(classes,)``.
        weights: How much each row counts, shape ``(n,)``; alike when left out.

    Returns:
        The shares of the classes among these rows, and the number of rounds.

    Raises:
        InputError: If there are no rows, or the prior does not have a share above 0 for each class.

    Example:
        >>> probs = np.array([[0.8, 0.2]] * 3 + [[0.2, 0.8]])
        >>> shares, rounds = em_prior(probs, np.array([0.5, 0.5]))
        >>> shares.round(4)  # the share s with .8 s + .2 (1 − s) = 3 / 4
        array([0.9167, 0.0833])

    Reference: Saerens, Latinne and Decaestecker 2002.
    """
    probs, prior = np.asarray(probs, np.float64), check_shares(prior, np.shape(probs)[-1])
    if probs.ndim != 2 or not len(probs):
        raise InputError(f"Expected probabilities (n, classes) of at least one row, but got {probs.shape}.")
    mass = np.full(len(probs), 1 / len(probs)) if weights is None else np.asarray(weights, np.float64) / np.sum(weights)
    ratio = probs / prior  # in proportion to how likely the row is in each class
    current, done, moved = prior, 0, np.inf
    while moved > 1e-9 and done < _ROUNDS:
        found = current * ((mass / (ratio @ current)) @ ratio)
        moved, current, done = np.abs(found - current).max(), found / found.sum(), done + 1
    return current, done


def estimate_prior(probs: Array, train_prior: Array, weights: Array | None = None) -> Array:
    """Return the shares of the classes among unlabelled rows; :func:`em_prior` without its number of rounds.

    Args:
        probs: Probabilities under the training prior, shape ``(n, classes)``.
        train_prior: Share of each class in the training data, shape ``(classes,)``.
        weights: How much each row counts, shape ``(n,)``; alike when left out.

    Returns:
        Shape ``(classes,)``.
    """
    return em_prior(probs, train_prior, weights)[0]


def correct_prior(train_prior: Array, prior: Array, *, fitted_on: SplitName = "calibration") -> Prior:
    """Make the correction from one prior to another.

    Args:
        train_prior: Share of each class in the training data, as resampled; with class weights in the loss, the share
            of each class times its weight, divided by their sum.
        prior: Share of each class where the model is used.
        fitted_on: Of which split the shares are.

    Returns:
        The calibrator.

    Example:
        >>> correct_prior(np.array([0.5, 0.5]), np.array([0.9, 0.1])).probs(np.log([[0.5, 0.5]])).round(4)
        array([[0.9, 0.1]])
    """
    before = check_shares(train_prior, len(train_prior))
    return Prior(np.log(check_shares(prior, len(before))) - np.log(before), fitted_on)


def check_shares(shares: Any, n_classes: int) -> Array:
    """Return shares of classes divided by their sum, or refuse them.

    Args:
        shares: One per class, or numbers in proportion to them.
        n_classes: How many there must be.

    Returns:
        Float64, sum 1.

    Raises:
        InputError: If there is not one above 0 for each class.
    """
    values = np.asarray(shares, np.float64)
    if values.shape != (n_classes,) or not np.isfinite(values).all() or not (values > 0).all():
        raise InputError(
            f"Expected a share above 0 for each of {n_classes} classes, but got {values.tolist()}. "
            "Leave classes out that do not occur."
        )
    result: Array = values / values.sum()
    return result


@CALIBRATORS.register("prior", reference="Saerens et al. 2002", keeps_order=False, parameters=lambda k: k)
def fit_prior(predictions: Predictions, *, target: str | None = None, train: str | None = None) -> Prior:
    """Prior correction: one weight per class, for training data in which classes were resampled or weighted.

    Without options the weights are chosen by NLL on these rows. ``train=0.5/0.5`` says what the training data had; the
    target are then the shares among these rows, by their labels. ``target=0.98/0.02`` says what the model will meet;
    these rows are then drawn as the training data were. ``target=em`` finds the shares from the scores alone, as for
    rows without labels; it needs ``train``.

    Args:
        predictions: Of the calibration split.
        target: Share of each class where the model is used, divided by ``/``; or ``em``.
        train: Share of each class in the training data, as resampled.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If shares are no numbers, or ``target=em`` has no ``train``.
    """
    logits, labels = fitting_data(predictions)
    weights, n_classes = fitting_weights(predictions), logits.shape[1]
    if target is None and train is None:
        cost = 1 / (2 * count_rows(labels, weights))  # a class that does not occur would have the weight 0
        found = fit_classwise([torch.ones_like(logits)], labels, weights, start=[0.0], cost=cost, offset=logits)
        return Prior((found[0] - found[0].mean()).numpy(), predictions.split)
    if target == "em":
        if train is None:
            raise OptionError("Expected train beside target=em. Write prior:train=0.5/0.5,target=em")
        given = None if weights is None else weights.numpy()
        before = _read_shares(train, n_classes)
        return correct_prior(
            before, estimate_prior(logits.softmax(1).numpy(), before, given), fitted_on=predictions.split
        )
    here = torch.bincount(labels, weights, minlength=n_classes).double().numpy()
    before = here if train is None else _read_shares(train, n_classes)
    after = here if target is None else _read_shares(target, n_classes)
    return correct_prior(before, after, fitted_on=predictions.split)


def _read_shares(text: str, n_classes: int) -> Array:
    """Read ``0.9/0.1``."""
    try:
        values = [float(each) for each in str(text).split("/")]
    except ValueError:
        raise OptionError(f"Expected shares of classes such as 0.9/0.1, but got {text!r}.") from None
    return check_shares(values, n_classes)
