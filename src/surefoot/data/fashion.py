"""Fashion-MNIST, the embedded subset."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.registry import DATA
from surefoot.schema import Splits

CLASS_NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


@DATA.register("fashion")
def fashion() -> Splits:
    """Fashion-MNIST, 28×28 grey: 4,000 train, 2,000 calibration, 4,000 test (embedded; MIT, Zalando 2017).

    Example:
        >>> splits = fashion()
        >>> tuple(splits.train.inputs.shape), len(splits.calibration), len(splits.test)
        ((4000, 1, 28, 28), 2000, 4000)
    """
    with files("surefoot.data").joinpath("fashion.npz").open("rb") as file, np.load(file) as arrays:
        return splits_from_arrays(arrays, origin="fashion", class_names=CLASS_NAMES)
