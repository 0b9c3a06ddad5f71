"""Fashion-MNIST: the embedded subset, and all of it from its IDX files."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Division
from surefoot.data._places import locate
from surefoot.data.idx import idx_marks, read_idx_folder
from surefoot.registry import DATA
from surefoot.schema import Splits

CLASS_NAMES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
MARKS = idx_marks("fashion-mnist", outside="/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist


@DATA.register("fashion", embedded=True, licence="MIT")
def fashion() -> Splits:
    """Fashion-MNIST, 28×28 grey: 4,000 train, 2,000 calibration, 4,000 test (embedded; MIT, Zalando 2017).

    Example:
        >>> splits = fashion()
        >>> tuple(splits.train.inputs.shape), len(splits.calibration), len(splits.test)
        ((4000, 1, 28, 28), 2000, 4000)
    """
    with files("surefoot.data").joinpath("fashion.npz").open("rb") as file, np.load(file) as arrays:
        return splits_from_arrays(arrays, origin="fashion", class_names=CLASS_NAMES)


@DATA.register("fashion_full", marks=MARKS, get="fashion_full", licence="MIT")
def fashion_full(
    *,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """All of Fashion-MNIST, 28×28 grey: 60,000 to train and calibrate, 10,000 to test.

    Args:
        path: Where the four IDX files are; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.
    """
    folder = locate("fashion_full", MARKS, path, get="fashion_full").parent
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    arrays = read_idx_folder(folder)
    return splits_from_arrays(arrays, origin="fashion_full", division=division, class_names=CLASS_NAMES)
