"""The IDX format of MNIST: four files, gzipped or not."""

from __future__ import annotations

import gzip
import math
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

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_FIRST = "train-images-idx3-ubyte"


def idx_marks(folder: str, outside: str | None = None) -> tuple[DataFile, ...]:
    """Name the file by which a folder of IDX files is recognised, gzipped or not."""
    return DataFile(f"{_FIRST}.gz", folder, outside), DataFile(_FIRST, folder, outside)


MNIST = idx_marks("mnist")


def read_idx(path: Path) -> Array:
    """Read one IDX file: two zero bytes, the type, the number of axes, their sizes, the values.

    Args:
        path: The file; ``.gz`` is unpacked.

    Returns:
        The array.

    Raises:
        InputError: If the file is no IDX file, cut short or too long.
    """
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Expected to read {path}, but {error}. Get the file again.") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or len(content) < 4 + 4 * content[3]:
        raise InputError(
            f"Expected {path} to begin like an IDX file, 00 00 type axes, but got {content[:4].hex(' ') or 'nothing'}. "
            "Get the file again."
        )
    shape = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    dtype = np.dtype(_TYPES[content[2]])
    body = len(content) - 4 - 4 * content[3]
    if body != math.prod(shape) * dtype.itemsize:
        raise InputError(
            f"Expected {math.prod(shape) * dtype.itemsize} bytes for shape {shape} in {path}, but got {body}. "
            "Get the file again."
        )
    return np.frombuffer(content, dtype, offset=len(content) - body).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx_folder(folder: Path) -> dict[str, Array]:
    """Read the four files that MNIST and its kin are published as.

    Args:
        folder: Where ``train-images-idx3-ubyte``, ``t10k-labels-idx1-ubyte`` … are, each with or without ``.gz``.

    Returns:
        ``x_train``, ``y_train``, ``x_test`` and ``y_test``.

    Raises:
        InputError: If one is missing or damaged.
    """
    arrays = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        for key, kind in (("x", "images-idx3"), ("y", "labels-idx1")):
            name = f"{prefix}-{kind}-ubyte"
            file = next((path for path in (folder / f"{name}.gz", folder / name) if path.exists()), None)
            if file is None:
                raise InputError(f"Expected {name} or {name}.gz in {folder}, but neither is there. Put it there.")
            arrays[f"{key}_{split}"] = read_idx(file)
    return arrays


@DATA.register("idx", licence="yours")
def idx(
    *, path: str, calibration: float = 0.2, split_seed: int = 0, n_train: int | None = None, n_test: int | None = None
) -> Splits:
    """Any four files in MNIST's format, gzipped or not: idx:FOLDER.

    Args:
        path: The folder.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.
    """
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    return splits_from_arrays(read_idx_folder(Path(path).expanduser()), origin=path, division=division)


@DATA.register("mnist", marks=MNIST, get="mnist", licence="CC BY-SA 3.0")
def mnist(
    *,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """MNIST, 28×28 grey: 60,000 handwritten digits to train and calibrate, 10,000 to test.

    Args:
        path: Where the four files are; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The three splits.
    """
    folder = locate("mnist", MNIST, path, get="mnist").parent
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    names = tuple("0123456789")
    return splits_from_arrays(read_idx_folder(folder), origin="mnist", division=division, class_names=names)
