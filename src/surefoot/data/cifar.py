"""CIFAR-10 and CIFAR-100 in whichever form is there: the published binary, the published pickles, or one npz."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from surefoot.data._arrays import relabel, splits_from_arrays
from surefoot.data._divide import Array, Division
from surefoot.data._pickles import read_pickle
from surefoot.data._places import DataFile, locate
from surefoot.data.npz import read_npz
from surefoot.data.people import read_noisy_labels
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits

CIFAR10 = (
    DataFile("data_batch_1.bin", "cifar-10-batches-bin"),
    DataFile("data_batch_1", "cifar-10-batches-py"),
    DataFile("cifar10.npz"),
)
CIFAR100 = (DataFile("train.bin", "cifar-100-binary"), DataFile("train", "cifar-100-python"), DataFile("cifar100.npz"))
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXELS = 3 * 32 * 32

Labels10 = Literal["clean", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3"]
Labels100 = Literal["clean", "noisy_label"]


@DATA.register("cifar10", marks=CIFAR10, get="cifar10", licence="none stated")
def cifar10(
    *,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    labels: Labels10 = "clean",
) -> Splits:
    """CIFAR-10, 32×32 colour: 50,000 to train and calibrate, 10,000 to test; labels=worse_label for people's errors.

    Args:
        path: Where the files are: published binary or python version, or an .npz; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.
        labels: Other than clean: train and calibrate on the labels that people gave, from CIFAR-10N.

    Returns:
        The three splits.
    """
    return _load(10, path, labels, Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test))


@DATA.register("cifar100", marks=CIFAR100, get="cifar100", licence="none stated")
def cifar100(
    *,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    labels: Labels100 = "clean",
) -> Splits:
    """CIFAR-100, 32×32 colour, fine labels: 50,000 to train and calibrate, 10,000 to test.

    Args:
        path: Where the files are: published binary or python version, or an .npz; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.
        labels: Other than clean: train and calibrate on the labels that people gave, from CIFAR-100N.

    Returns:
        The three splits.
    """
    return _load(100, path, labels, Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test))


def _load(n_classes: int, path: str | None, labels: str, division: Division) -> Splits:
    """Find the images, divide them, and take people's labels where asked."""
    name = f"cifar{n_classes}"
    mark = locate(name, CIFAR10 if n_classes == 10 else CIFAR100, path, get=name)
    names = CLASS_NAMES if n_classes == 10 else _fine_names(mark)
    splits = splits_from_arrays(read_cifar(mark, n_classes), origin=str(mark), division=division, class_names=names)
    if labels == "clean":
        return splits
    return relabel(splits, read_noisy_labels(n_classes, labels, path), origin=f"CIFAR-{n_classes}N, {labels}")


def read_cifar(mark: Path, n_classes: int) -> dict[str, Array]:
    """Read CIFAR-10 or CIFAR-100 in the form that a file of it shows.

    Args:
        mark: ``data_batch_1.bin``, ``data_batch_1``, ``train.bin``, ``train`` or an ``.npz``.
        n_classes: 10 or 100.

    Returns:
        ``x_train`` (n, 3, 32, 32) as bytes (from an npz as they are there), ``y_train``, ``x_test``, ``y_test``.

    Raises:
        InputError: If a file is missing, cut short or is something else.
    """
    if mark.suffix == ".npz":
        return read_npz(mark)
    if n_classes == 10:
        names = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    else:
        names = {"train": ["train"], "test": ["test"]}
    arrays = {}
    for split, files in names.items():
        parts = [_read_part(mark.with_name(file + mark.suffix), n_classes) for file in files]
        arrays[f"x_{split}"] = np.concatenate([x for x, _ in parts])
        arrays[f"y_{split}"] = np.concatenate([y for _, y in parts])
    return arrays


def _read_part(file: Path, n_classes: int) -> tuple[Array, Array]:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(
            f"Expected to read {file}, but {error.strerror}. Run `surefoot data get cifar{n_classes}`."
        ) from error
    pixels, labels = (_binary if file.suffix == ".bin" else _pickled)(content, n_classes, str(file))
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        worst = labels.max() if labels.max() >= n_classes else labels.min()
        raise InputError(f"Expected labels in 0…{n_classes - 1} in {file}, but got {worst}. Get the file again.")
    return pixels.reshape(-1, 3, 32, 32), labels


def _binary(content: bytes, n_classes: int, origin: str) -> tuple[Array, Array]:
    """Records of a label (CIFAR-100: the coarse one, then the fine one) and 3072 pixels, red, green, blue."""
    n_labels = 1 if n_classes == 10 else 2
    if not content or len(content) % (n_labels + _PIXELS):
        raise InputError(
            f"Expected {origin} to be records of {n_labels + _PIXELS} bytes, but it has {len(content)}. "
            "Get the file again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, n_labels + _PIXELS)
    return records[:, n_labels:], records[:, n_labels - 1].astype(np.int64)


def _pickled(content: bytes, n_classes: int, origin: str) -> tuple[Array, Array]:
    found = read_pickle(content, origin)
    key = b"labels" if n_classes == 10 else b"fine_labels"
    values = {_as_bytes(name): value for name, value in found.items()} if isinstance(found, dict) else {}
    pixels, labels = values.get(b"data"), values.get(key)
    is_pixels = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape[1:] == (_PIXELS,)
    is_labels = isinstance(labels, list) and all(type(label) is int for label in labels)
    if not is_pixels or not is_labels or len(pixels) != len(labels):  # type: ignore[arg-type]  # both are checked before
        raise InputError(
            f"Expected {origin} to hold data (n, {_PIXELS}) as bytes and {key.decode()}, but it holds "
            f"{', '.join(name.decode('ascii', 'replace') for name in values) or 'neither'}. Get the file again."
        )
    return np.asarray(pixels), np.array(labels, np.int64)


def _as_bytes(name: Any) -> bytes:
    return name.encode() if isinstance(name, str) else name if isinstance(name, bytes) else b""


def _fine_names(mark: Path) -> tuple[str, ...]:
    """Read the names that come with the published versions; else number the classes."""
    names: list[str] = []
    if mark.suffix == ".bin" and (file := mark.with_name("fine_label_names.txt")).exists():
        names = file.read_text().split()
    elif not mark.suffix and (file := mark.with_name("meta")).exists():
        meta = read_pickle(file.read_bytes(), str(file))
        found: Any = meta.get(b"fine_label_names", meta.get("fine_label_names")) if isinstance(meta, dict) else None
        names = [_as_bytes(name).decode("ascii", "replace") for name in found] if isinstance(found, list) else []
    return tuple(names) if len(names) == 100 else tuple(map(str, range(100)))
