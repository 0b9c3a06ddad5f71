"""Who is trained on, who is calibrated on, who is tested on: decided by labels and a seed alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from surefoot.errors import InputError
from surefoot.schema import Rows, SplitName
from surefoot.seeding import generator

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Division:
    """How a data set is divided where its files do not say.

    Attributes:
        calibration: Share of each class that is set aside for calibration.
        of: Which part of the published data it is taken from.
        seed: Determines which ones.
        n_train: Train on no more than so many of the others, the first ones of each class; None for all.
        n_test: The same for testing.
    """

    calibration: float = 0.2
    of: SplitName = "train"
    seed: int = 0
    n_train: int | None = None
    n_test: int | None = None


DEFAULT = Division()


def divide(labels: Mapping[SplitName, Array], division: Division = DEFAULT) -> dict[SplitName, Rows]:
    """Return which rows of the published data make each split.

    Args:
        labels: Of the published parts: train, test and, where there is one, calibration.
        division: What to do.

    Returns:
        For each split the part it comes from and the rows there, in their order.

    Raises:
        InputError: If the share is none, or more examples are wanted than there are.

    Example:
        >>> labels = {"train": np.array([0, 0, 0, 0, 1, 1, 1, 1]), "test": np.array([0, 1])}
        >>> rows = divide(labels, Division(calibration=0.25, n_train=4))
        >>> [len(rows[split].numbers) for split in ("train", "calibration", "test")]
        [4, 2, 2]
    """
    rows = {name: Rows(name, np.arange(len(found))) for name, found in labels.items()}
    if "calibration" not in rows:
        kept, held = _set_aside(labels[division.of], division.calibration, division.seed)
        rows[division.of], rows["calibration"] = Rows(division.of, kept), Rows(division.of, held)
    wanted: dict[SplitName, int | None] = {"train": division.n_train, "test": division.n_test}
    for name, n in wanted.items():
        if n is not None:
            numbers = rows[name].numbers
            rows[name] = Rows(name, numbers[first_of_each_class(labels[name][numbers], n, f"n_{name}")])
    return rows


def _set_aside(labels: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Divide rows class by class; the draw depends on nothing but their number and the seed."""
    if not 0 < share < 1:
        raise InputError(f"Expected calibration to be a share between 0 and 1, but got {share:g}. Choose 0.2, say.")
    order = torch.randperm(len(labels), generator=generator(seed, "calibration split")).numpy()
    held = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        held[rows[: round(share * len(rows))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def first_of_each_class(labels: Array, n: int, what: str = "n", *, leave: int = 0) -> Array:
    """Choose n rows, the first ones of each class, with the classes as frequent as they are.

    The n are shared out by the largest remainder: class k gets ⌊n·n_k/N⌋, and one more where the most is left over.

    Args:
        labels: Of all rows.
        n: How many to choose.
        what: The option's name, for the error message.
        leave: How many of each class are left over in any case; the other classes make up for what a small one lacks.

    Returns:
        The rows chosen, in their order.

    Raises:
        InputError: If there are not so many.

    Example:
        >>> first_of_each_class(np.array([0, 0, 0, 0, 1, 1]), 3).tolist()
        [0, 1, 4]
        >>> first_of_each_class(np.array([0, 0, 0, 0, 1]), 3, leave=1).tolist()
        [0, 1, 2]
    """
    classes, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    most = np.maximum(counts - leave, 0)
    if not 1 <= n <= most.sum():
        raise InputError(f"Expected {what} between 1 and {most.sum()}, the rows there are, but got {n}. Change it.")
    exact = n * counts
    quota = np.minimum(exact // len(labels), most)
    left_over = np.argsort(-(exact % len(labels)), kind="stable")
    while (missing := n - quota.sum()) > 0:
        quota[left_over[(quota < most)[left_over]][:missing]] += 1
    return np.sort(np.concatenate([np.flatnonzero(place == k)[: quota[k]] for k in range(len(classes))]))
