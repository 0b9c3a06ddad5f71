"""A small part of CIFAR-10: as many examples to train on as to test on, which is what full-batch curvature can bear."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.errors import InputError
from surefoot.schema import Splits

FILE = "cifar10.npz"
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def find_cifar10() -> Path | None:
    """Look for ``cifar10.npz`` in the folder that SUREFOOT_DATA names, else in ``shared/data`` beside the project."""
    named = os.environ.get("SUREFOOT_DATA")
    beside = [Path.cwd().parent, Path(__file__).resolve().parents[4]]
    places = [Path(named)] if named else [place / "shared" / "data" for place in beside]
    return next((place / FILE for place in places if (place / FILE).is_file()), None)


def small_cifar10(*, n_train: int = 5000, n_calibration: int = 2000, n_test: int = 5000) -> Splits:
    """CIFAR-10, the first examples of each part.

    Args:
        n_train: To train on.
        n_calibration: The next ones of the training part.
        n_test: Of the test part.

    Returns:
        The splits.

    Raises:
        InputError: If the file is not there.
    """
    file = find_cifar10()
    if file is None:
        raise InputError(f"Expected {FILE}, but found none. Set SUREFOOT_DATA to the folder that holds it.")
    with np.load(file, allow_pickle=False) as arrays:
        x, y, last = arrays["x_train"], arrays["y_train"], n_train + n_calibration
        parts = {
            **{"x_train": x[:n_train], "y_train": y[:n_train]},
            **{"x_calibration": x[n_train:last], "y_calibration": y[n_train:last]},
            **{"x_test": arrays["x_test"][:n_test], "y_test": arrays["y_test"][:n_test]},
        }
    return splits_from_arrays(parts, origin=FILE, class_names=CLASS_NAMES)
