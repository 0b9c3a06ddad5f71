"""Street View House Numbers: cropped digits in MATLAB's format."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Array, Division
from surefoot.data._places import DataFile, locate
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits

MARKS = (DataFile("train_32x32.mat", "svhn"),)


@DATA.register("svhn", marks=MARKS, get="svhn", licence="for non-commercial use")
def svhn(
    *,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """SVHN, 32×32 colour house numbers: 73,257 to train and calibrate, 26,032 to test.

    Args:
        path: Where train_32x32.mat and test_32x32.mat are; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.
    """
    folder = locate("svhn", MARKS, path, get="svhn").parent
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    arrays = {}
    for split in ("train", "test"):
        arrays[f"x_{split}"], arrays[f"y_{split}"] = read_svhn(folder / f"{split}_32x32.mat")
    return splits_from_arrays(arrays, origin="svhn", division=division, class_names=tuple("0123456789"))


def read_svhn(file: Path) -> tuple[Array, Array]:
    """Read one file of cropped digits; what it calls class 10 is the digit 0.

    Args:
        file: ``train_32x32.mat``, ``test_32x32.mat`` or ``extra_32x32.mat``.

    Returns:
        Pixels (n, 32, 32, 3) as bytes and labels in 0…9.

    Raises:
        InputError: If the file is missing, damaged or holds something else.
    """
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if not file.is_file():
        raise InputError(f"Expected {file}, but it is not there. Run `surefoot data get svhn`.")
    try:
        found = loadmat(file, variable_names=["X", "y"])
    except (MatReadError, NotImplementedError, OSError, EOFError, zlib.error, struct.error, ValueError, TypeError) as e:
        raise InputError(f"Expected {file} to be a .mat file, but {e}. Get the file again.") from e
    pixels, labels = found.get("X"), found.get("y")
    if pixels is None or labels is None or pixels.dtype != np.uint8 or pixels.shape[:3] != (32, 32, 3):
        held = ", ".join(key for key in found if not key.startswith("__")) or "nothing"
        raise InputError(
            f"Expected X (32, 32, 3, n) as bytes and y in {file}, but it holds {held}. Get the file again."
        )
    labels = labels.ravel().astype(np.int64)
    if labels.size != pixels.shape[-1] or not labels.size or not 0 <= labels.min() <= labels.max() <= 10:
        raise InputError(
            f"Expected {pixels.shape[-1]} labels in 1…10 in {file}, but got {labels.size}, from "
            f"{min(labels.tolist(), default=None)} to {max(labels.tolist(), default=None)}. Get the file again."
        )
    return np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)), labels % 10
