"""Any data set, divided anew: another choice of who is trained on, calibrated on and tested on."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch

from surefoot.data._divide import Array, first_of_each_class
from surefoot.data._inside import from_option
from surefoot.data._load import load_splits
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import SPLITS, Rows, Split, SplitName, Splits
from surefoot.seeding import generator


@DATA.register("redivided")
def redivided(*, of: str, seed: int = 0, test: bool = True) -> Splits:
    """Any data set, divided anew class by class into splits of the same sizes: redivided:fashion,seed=3.

    The division depends on labels and seed alone. Every class is as frequent in each split as in all of them together,
    but for rounding, and keeps at least one example to train on.

    Inputs stay scaled as they were: by mean and standard deviation of the former training split. Where the test split
    is of another kind than the rest, as that of ``cifar10c``, or the labels to train on are worse, as those of
    ``noisy``, say ``test=false``, or write ``noisy:of=redivided:…``: else they are mixed.

    It stays known where the examples come from if all that are mixed come from one part of the published data.

    Args:
        of: The data set, as on the command line; a semicolon stands for a comma between its own options.
        seed: Determines who goes where.
        test: Whether the test split is divided anew as well; else it stays as published.

    Returns:
        The splits.

    Raises:
        InputError: If two splits are the same examples, or fewer are trained on than there are classes.

    Example:
        >>> splits = redivided(of="digits:n_test=597", seed=3)
        >>> len(splits.train), len(splits.calibration), len(splits.test)
        (901, 299, 597)
    """
    splits = load_splits(DATA.parse(from_option(of)))
    for one, other in combinations(SPLITS, 2):
        if splits[one].inputs is splits[other].inputs:
            raise InputError(
                f"Expected other examples in each split, but {one} and {other} are the same in {of}. "
                "Set some aside for each."
            )
    names: tuple[SplitName, ...] = SPLITS if test else ("train", "calibration")
    pool = _together([splits[name] for name in names])
    left = torch.randperm(len(pool), generator=generator(seed, "redivided")).numpy()
    labels = pool.labels.numpy()
    n_classes = len(np.unique(labels))
    if len(splits.train) < n_classes:
        raise InputError(
            f"Expected at least one example of each of {n_classes} classes to train on, but got {len(splits.train)} "
            f"in all in {of}. Train on more."
        )
    changed: dict[str, Any] = {}
    for name in reversed(names[1:]):
        chosen = first_of_each_class(labels[left], len(splits[name]), leave=1)
        changed[name] = _some(pool, left[chosen])
        left = np.delete(left, chosen)
    changed["train"] = _some(pool, left)
    told = f"{splits.fingerprint} redivided seed={seed} test={test}"
    return dataclasses.replace(splits, fingerprint=hashlib.sha256(told.encode()).hexdigest(), **changed)


def _together(splits: Sequence[Split]) -> Split:
    """Put splits one behind the other; their rows are known where one source has them all."""
    known = [split.rows for split in splits if split.rows is not None]
    has_one_source = len(known) == len(splits) and len({rows.source for rows in known}) == 1
    return Split(
        torch.cat([split.inputs for split in splits]),
        torch.cat([split.labels for split in splits]),
        Rows(known[0].source, np.concatenate([rows.numbers for rows in known])) if has_one_source else None,
    )


def _some(pool: Split, chosen: Array) -> Split:
    """Take some examples, in the order that they have in the pool."""
    numbers = np.sort(chosen)
    at = torch.from_numpy(numbers)
    rows = Rows(pool.rows.source, pool.rows.numbers[numbers]) if pool.rows is not None else None
    return Split(pool.inputs[at], pool.labels[at], rows)
