"""What people said about CIFAR: CIFAR-10H's votes on the test images, CIFAR-N's labels of the training images."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from surefoot.data._divide import Array
from surefoot.data._pickles import read_pickle
from surefoot.data._places import find, locate
from surefoot.data._published import PUBLISHED
from surefoot.data.npz import read_npz
from surefoot.errors import InputError


def read_votes(path: str | None = None) -> Array:
    """Read how many people saw which class in each CIFAR-10 test image (CIFAR-10H).

    Dividing each row by its sum gives the probabilities that an ideal classifier would say.

    Args:
        path: ``cifar10h-counts.npy``, an ``.npz`` with ``counts``, or the folder of either; else it is searched for.

    Returns:
        Counts of shape ``(10000, 10)`` as int64, in the order of the test set.

    Raises:
        InputError: If the file is missing or holds something else.
    """
    file = locate("the votes of CIFAR-10H", PUBLISHED["cifar10h"].marks, path, get="cifar10h")
    counts = read_npz(file).get("counts") if file.suffix == ".npz" else read_npy(file)
    if counts is None or counts.ndim != 2 or counts.shape[1] != 10 or not counts.size:
        shape = None if counts is None else counts.shape
        raise InputError(f"Expected counts (n, 10) in {file}, but got {shape}. Run `surefoot data get cifar10h`.")
    whole = counts.astype(np.int64)
    if not np.array_equal(whole, counts) or whole.min() < 0 or not whole.sum(1).all():
        raise InputError(
            f"Expected {file} to count votes, some for each image, but it holds other numbers. "
            "Run `surefoot data get cifar10h`."
        )
    return whole


def read_noisy_labels(n_classes: int, name: str, path: str | None = None) -> Array:
    """Read the labels that people gave to the training images of CIFAR-10 or CIFAR-100 (CIFAR-N).

    Args:
        n_classes: 10 or 100.
        name: Which: ``aggre_label``, ``worse_label``, ``random_label1`` …; for CIFAR-100 ``noisy_label``.
        path: Where to look first; else, or where it is not there, the search path.

    Returns:
        One label per training image, in the published order.

    Raises:
        InputError: If the file is missing, or holds no such labels.
    """
    get = f"cifar{n_classes}n"
    marks = PUBLISHED[get].marks
    near = Path(path).expanduser() if path is not None else None
    places = [str(place) for place in (near, near and near.parent) if place is not None and place.is_dir()]
    file = next((at for place in places if (at := find(marks, place))), None)
    file = file or locate(f"the labels of CIFAR-{n_classes}N", marks, get=get)
    return read_labels(file, name)


def read_labels(file: Path, name: str = "") -> Array:
    """Read one label per example, as published: from an ``.npy``, an ``.npz`` or a ``.pt`` of named arrays.

    Args:
        file: Where they are.
        name: Which array; an ``.npy`` has one only.

    Returns:
        Whole numbers.

    Raises:
        InputError: If the file is missing, or holds no such labels.
    """
    if not file.is_file():
        raise InputError(f"Expected a file of labels, but {file} does not exist. Check its path.")
    if file.suffix == ".npy":
        found: dict[str, Array] = {name: read_npy(file)}
    else:
        found = read_npz(file) if file.suffix == ".npz" else _read_torch_arrays(file)
    if name not in found:
        raise InputError(
            f"Expected {name or 'the name of an array'} in {file}, but it holds {', '.join(found) or 'nothing'}. "
            "Choose one of them."
        )
    labels = found[name]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(
            f"Expected whole numbers, one per example, but {file} holds {labels.dtype} {labels.shape}. "
            "Number the classes from 0."
        )
    return labels


def read_npy(file: Path) -> Array:
    """Read one array, never a pickle.

    Args:
        file: An ``.npy`` file.

    Returns:
        The array; a large file is mapped, so that rows are read when they are asked for.

    Raises:
        InputError: If it is damaged or holds objects.
    """
    try:
        found: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"Expected {file} to be an .npy file, but {reason}. Get the file again.") from error
    return found


def _read_torch_arrays(file: Path) -> dict[str, Array]:
    """Read a ``.pt`` file of NumPy arrays: a zip archive whose ``data.pkl`` holds all of them."""
    try:
        with zipfile.ZipFile(file) as archive:
            inside = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            content = archive.read(inside) if inside else None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise InputError(f"Expected {file} to be a file of torch.save, but {error}. Get the file again.") from error
    found = read_pickle(content, str(file)) if content is not None else None
    if not isinstance(found, dict):
        raise InputError(f"Expected {file} to hold arrays by name, but it does not. Get the file again.")
    return {name: value for name, value in found.items() if isinstance(name, str) and isinstance(value, np.ndarray)}
