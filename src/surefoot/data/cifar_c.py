"""CIFAR-10-C and CIFAR-100-C: the test images under 19 corruptions at five severities."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_arrays
from surefoot.data._divide import Array, Division
from surefoot.data._places import DataFile, locate
from surefoot.data.cifar import CIFAR10, CIFAR100, CLASS_NAMES, read_cifar
from surefoot.data.people import read_npy
from surefoot.errors import InputError, OptionError
from surefoot.registry import DATA
from surefoot.schema import Splits

CIFAR10C = (DataFile("labels.npy", "CIFAR-10-C"),)
CIFAR100C = (DataFile("labels.npy", "CIFAR-100-C"),)
_MARKS = {10: (CIFAR10, CIFAR10C), 100: (CIFAR100, CIFAR100C)}  # of the clean images, of the corrupted ones
SEVERITIES = 5


def read_cifar_c(path: str | Path, corruption: str, severity: int) -> tuple[Array, Array]:
    """Read the test images under one corruption.

    A file holds the whole test set five times: severity s is rows (s − 1)·n … s·n of 5·n.

    Args:
        path: The folder with ``<corruption>.npy`` and ``labels.npy``.
        corruption: Such as ``fog`` or ``jpeg_compression``.
        severity: 1 to 5.

    Returns:
        Pixels (n, 32, 32, 3) as bytes, and labels (n,).

    Raises:
        InputError: If a file is missing or is something else.
        OptionError: If there is no such corruption or severity.
    """
    folder = Path(path).expanduser()
    if not 1 <= severity <= SEVERITIES:
        raise OptionError(f"Expected severity to be 1 to {SEVERITIES}, but got {severity}. Write severity=3")
    file = folder / f"{corruption}.npy"
    if Path(corruption).name != corruption or not file.is_file() or corruption == "labels":
        known = sorted(each.stem for each in folder.glob("*.npy") if each.stem != "labels")
        raise OptionError(
            f"Expected a corruption in {folder}, but got {corruption!r}. Choose from {', '.join(known) or 'none'}."
        )
    if not (folder / "labels.npy").is_file():
        raise InputError(f"Expected labels.npy in {folder}, but it is not there. Run `surefoot data get cifar10c`.")
    pixels, labels = read_npy(file), read_npy(folder / "labels.npy")
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (32, 32, 3) or not len(pixels) or len(pixels) % SEVERITIES:
        raise InputError(
            f"Expected {SEVERITIES}·n images (32, 32, 3) as bytes in {file}, but got {pixels.dtype} {pixels.shape}. "
            "Get the file again."
        )
    if labels.shape != (len(pixels),):
        raise InputError(
            f"Expected one label per image in {folder}, but got {labels.shape} for {len(pixels)}. Get it again."
        )
    n = len(pixels) // SEVERITIES
    rows = slice((severity - 1) * n, severity * n)
    return np.array(pixels[rows]), np.array(labels[rows], np.int64)


@DATA.register("cifar10c", marks=CIFAR10C, get="cifar10c", licence="CC BY 4.0")
def cifar10c(
    *,
    corruption: str,
    severity: int = 3,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """CIFAR-10 with its test images corrupted: cifar10c:fog,severity=3; needs cifar10 too, for the training images.

    Args:
        corruption: Such as fog or jpeg_compression.
        severity: 1 to 5.
        path: Folder that holds CIFAR-10-C and CIFAR-10; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The splits of cifar10, the test one corrupted.
    """
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    return _load(10, path, corruption, severity, division)


@DATA.register("cifar100c", marks=CIFAR100C, get="cifar100c", licence="CC BY 4.0")
def cifar100c(
    *,
    corruption: str,
    severity: int = 3,
    path: str | None = None,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """CIFAR-100 with its test images corrupted: cifar100c:fog,severity=3; needs cifar100 too.

    Args:
        corruption: Such as fog or jpeg_compression.
        severity: 1 to 5.
        path: Folder that holds CIFAR-100-C and CIFAR-100; else they are searched for.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.

    Returns:
        The splits of cifar100, the test one corrupted.
    """
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    return _load(100, path, corruption, severity, division)


def _load(n_classes: int, path: str | None, corruption: str, severity: int, division: Division) -> Splits:
    """Find the clean and the corrupted images, and test on the latter."""
    name, (clean, corrupted) = f"cifar{n_classes}", _MARKS[n_classes]
    mark = locate(name, clean, path, get=name)
    folder = locate(f"{name}c", corrupted, path, get=f"{name}c").parent
    arrays = _corrupted(read_cifar(mark, n_classes), *read_cifar_c(folder, corruption, severity))
    names = CLASS_NAMES if n_classes == 10 else tuple(map(str, range(n_classes)))
    return splits_from_arrays(arrays, origin=f"{name}c", division=division, class_names=names)


def _corrupted(clean: dict[str, Array], pixels: Array, labels: Array) -> dict[str, Array]:
    """Replace the test images, in the order of axes that the training images have."""
    is_last = clean["x_train"].shape[-1] == 3
    images = pixels if is_last else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    return {**clean, "x_test": images, "y_test": labels}
