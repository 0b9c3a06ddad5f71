"""A data set of your own, from one ``.npz`` file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Division
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits


@DATA.register("npz", licence="yours")
def npz(
    *,
    path: str,
    inputs: str | None = None,
    renumber: bool = False,
    calibration: float = 0.2,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """Your arrays x_train, y_train, x_test, y_test (and x_calibration, y_calibration): npz:PATH.

    Args:
        path: The file.
        inputs: pixels, features, or raw for what stays as it is (tokens); else bytes are pixels, floats features.
        renumber: Take the values among the training labels as the classes, where they are not 0, 1, 2, ….
        calibration: Without a calibration split of its own, the share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.

    Raises:
        InputError: If the file is missing, damaged or holds pickled objects.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"Expected an .npz file, but {path} does not exist. Check the path after npz:.")
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    return splits_from_arrays(read_npz(file), origin=path, division=division, renumber=renumber, kind=inputs)


def read_npz(file: Path) -> dict[str, Any]:
    """Read all arrays of an ``.npz`` file.

    Args:
        file: The file.

    Returns:
        The arrays by name.

    Raises:
        InputError: If it is damaged or holds pickled objects.
    """
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as loaded:
            return {key: loaded[key] for key in loaded.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError) as error:
        reason = "it holds pickled objects" if "allow_pickle" in str(error) else str(error).partition("\n")[0]
        raise InputError(
            f"Expected {file} to be an .npz file of plain arrays, but {reason}. Save it with np.savez."
        ) from error
