"""Examples that are not trained on, for loops of one's own: to steer or to calibrate by."""

from __future__ import annotations

import sys
from collections.abc import Sized
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from surefoot.data._divide import Array, first_of_each_class
from surefoot.errors import InputError
from surefoot.seeding import generator

T = TypeVar("T")


def set_aside(
    dataset: Dataset[T], share: float = 0.1, *, seed: int = 0, quiet: bool = False
) -> tuple[Subset[T], Subset[T]]:
    """Set a share of a dataset aside, to steer or to calibrate by, and say so in one line on stderr.

    It goes class by class where the dataset tells its labels without loading every example: whole numbers, one per
    example, as ``targets`` or ``labels``, or as the last tensor of a ``TensorDataset``; also of what a ``Subset`` is
    taken from. At least one example of each class is left to train on. Else it goes at random, and the line says that.

    Args:
        dataset: A map-style dataset: examples by number, and a length.
        share: How much of it, between 0 and 1.
        seed: Determines which ones; every process of a distributed run must have the same.
        quiet: Print nothing; ``quiet=rank > 0`` where several processes would say the same.

    Returns:
        What is left to train on, and what is set aside, both in the order of the dataset.

    Raises:
        InputError: If examples cannot be chosen by number, or one of both parts would be empty or without a class.

    Example:
        >>> data = TensorDataset(torch.randn(40, 2), torch.arange(40) % 4)
        >>> train, held_out = set_aside(data, 0.2, quiet=True)
        >>> len(train), torch.stack([label for _, label in held_out]).bincount().tolist()
        (32, [2, 2, 2, 2])
    """
    n = _length(dataset)
    if not 0 < share < 1:
        raise InputError(f"Expected a share between 0 and 1 to set aside, but got {share:g}. Choose 0.1, say.")
    n_aside = round(share * n)
    if not 0 < n_aside < n:
        raise InputError(
            f"Expected a share that leaves neither part empty, but {share:g} of {n} examples is {n_aside}. "
            "Choose another one."
        )
    labels = _labels(dataset, n)
    order = torch.randperm(n, generator=generator(seed, "set aside")).numpy()
    is_aside = np.zeros(n, bool)
    is_aside[order[:n_aside] if labels is None else order[_by_class(labels[order], n_aside)]] = True
    if not quiet:
        how = "at random" if labels is None else "by class"
        print(
            f"Set aside {n_aside:,} of {n:,} examples ({100 * n_aside / n:.3g} %) {how}, seed {seed}: "
            "do not train on them.",
            file=sys.stderr,
        )
    return Subset(dataset, np.flatnonzero(~is_aside).tolist()), Subset(dataset, np.flatnonzero(is_aside).tolist())


def _length(dataset: Any) -> int:
    kind = type(dataset).__name__
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise InputError(
            f"Expected a dataset with examples by number, but got {kind}. Pass a map-style Dataset; of a DataLoader, "
            "its .dataset."
        )
    try:
        return len(cast(Sized, dataset))
    except (TypeError, NotImplementedError) as error:
        raise InputError(f"Expected a dataset with a length, but {kind} has none. Give it __len__.") from error


def _by_class(labels: Array, n: int) -> Array:
    n_classes, n_left = len(np.unique(labels)), len(labels) - n
    if n_left < n_classes:
        raise InputError(
            f"Expected a share that leaves an example of each of {n_classes} classes to train on, but it leaves "
            f"{n_left} in all. Choose a smaller one."
        )
    return first_of_each_class(labels, n, leave=1)


def _labels(dataset: Any, n: int) -> Array | None:
    """Return the labels, if they are known without loading examples."""
    told = [getattr(dataset, "targets", None), getattr(dataset, "labels", None)]
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) > 1:
        told.append(dataset.tensors[-1])
    for found in told:
        labels = _whole_numbers(found)
        if labels is not None and labels.shape == (n,):
            return labels
    if isinstance(dataset, Subset) and hasattr(dataset.dataset, "__len__"):
        labels = _labels(dataset.dataset, len(dataset.dataset))
        return None if labels is None else labels[np.asarray(dataset.indices)]
    return None


def _whole_numbers(found: Any) -> Array | None:
    if isinstance(found, Tensor):
        is_exact = not (found.is_floating_point() or found.is_complex())
        return found.detach().cpu().numpy() if is_exact else None
    try:
        array = np.asarray(found)
    except (ValueError, TypeError):  # of different lengths, as the boxes in pictures are
        return None
    return array if array.dtype.kind in "iub" else None
