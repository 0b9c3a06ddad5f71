"""Handwritten digits of 8×8 pixels: the smallest real pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.resources import files

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Array, Division, first_of_each_class
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Rows, Split, Splits


@DATA.register("digits", embedded=True, licence="CC BY 4.0")
def digits(*, calibration: float = 0.25, split_seed: int = 0, n_test: int = 597) -> Splits:
    """Digits, 8×8 grey, 17 shades: 901 train, 299 calibration, 597 test (embedded; CC BY 4.0, Alpaydin, Kaynak 1998).

    The test split is the first ones of each class.

    Args:
        calibration: Share of the others to set aside.
        split_seed: Determines which ones.
        n_test: How many to test on.

    Returns:
        The three splits.

    Raises:
        InputError: If nothing is left to train on.

    Example:
        >>> splits = digits()
        >>> tuple(splits.train.inputs.shape), len(splits.calibration), len(splits.test)
        ((901, 1, 8, 8), 299, 597)
    """
    with files("surefoot.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        shades, labels = arrays["x"], arrays["y"]
    if not 10 <= n_test <= len(labels) - 100:
        raise InputError(f"Expected n_test between 10 and {len(labels) - 100}, but got {n_test}. Change it.")
    pixels = ((shades.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)  # 0…16 becomes 0…255
    test = first_of_each_class(labels, n_test, "n_test")
    numbers = {"train": np.setdiff1d(np.arange(len(labels)), test), "test": test}
    splits = splits_from_arrays(
        {f"{key}_{part}": array[numbers[part]] for part in numbers for key, array in (("x", pixels), ("y", labels))},
        origin="digits",
        division=Division(calibration, seed=split_seed),
        class_names=tuple("0123456789"),
    )
    return dataclasses.replace(
        splits,
        train=_placed(splits.train, numbers),
        calibration=_placed(splits.calibration, numbers),
        test=_placed(splits.test, numbers),
    )


def _placed(split: Split, numbers: Mapping[str, Array]) -> Split:
    """Count rows in the one file that is published."""
    if split.rows is None:
        return split
    return dataclasses.replace(split, rows=Rows("all", numbers[split.rows.source][split.rows.numbers]))
