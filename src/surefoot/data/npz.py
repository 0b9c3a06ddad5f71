"""A data set of your own, from one ``.npz`` file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits


@DATA.register("npz")
def npz(*, path: str, calibration: float = 0.2) -> Splits:
    """Your arrays x_train, y_train, x_test, y_test (and x_calibration, y_calibration): npz:PATH.

    Args:
        path: The file.
        calibration: Without a calibration split of its own, the share of the training examples to set aside.

    Returns:
        The three splits.

    Raises:
        InputError: If the file is missing, damaged or holds pickled objects.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"Expected an .npz file, but {path} does not exist. Check the path after npz:.")
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as loaded:
            arrays = {key: loaded[key] for key in loaded.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        reason = "it holds pickled objects" if "allow_pickle" in str(error) else str(error).partition("\n")[0]
        raise InputError(
            f"Expected {path} to be an .npz file of plain arrays, but {reason}. Save it with np.savez."
        ) from error
    return splits_from_arrays(arrays, origin=path, calibration=calibration)
