"""Pictures in folders, one folder per class; ImageNet is one of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.data._arrays import splits_from_rows
from surefoot.data._divide import Array, Division
from surefoot.data._places import DataFile, locate
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import SplitName, Splits

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm")
IMAGENET = (DataFile("val", "imagenet"), DataFile("val", "ILSVRC2012"))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError(
            "Expected Pillow, which reads pictures, but it is not installed. Run pip install 'surefoot[images]'."
        ) from error
    return Image


@dataclass(frozen=True)
class Pictures:
    """Files of pictures that are read when they are asked for.

    Attributes:
        files: One per row.
        size: Pixels per side; pictures are cut to their central square and scaled to it.
    """

    files: Sequence[Path]
    size: int

    def __getitem__(self, rows: Array) -> Array:
        """Read these rows as (n, size, size, 3) bytes."""
        image = _pillow()
        pixels = np.empty((len(rows), self.size, self.size, 3), np.uint8)
        for place, row in enumerate(rows):
            file = self.files[row]
            try:
                with image.open(file) as opened:
                    picture = opened.convert("RGB")
            except (OSError, ValueError, SyntaxError, image.DecompressionBombError) as error:
                raise InputError(f"Expected {file} to be a picture, but {error}. Remove or repair it.") from error
            side = min(picture.size)
            left, top = ((length - side) // 2 for length in picture.size)
            if picture.size != (self.size, self.size):
                box = (left, top, left + side, top + side)
                picture = picture.resize((self.size, self.size), image.Resampling.BILINEAR, box=box)
            pixels[place] = np.asarray(picture)
        return pixels


def pictures_in(folder: Path, classes: Sequence[str]) -> tuple[list[Path], Array]:
    """List the pictures below a folder, class by class, by name.

    Args:
        folder: Holds one folder per class.
        classes: Their names, in the order of their numbers.

    Returns:
        The files and their labels.

    Raises:
        InputError: If a folder is of no known class.
    """
    unknown = sorted(each.name for each in folder.iterdir() if each.is_dir() and each.name not in set(classes))
    if unknown:
        raise InputError(
            f"Expected the classes of the training folder in {folder}, but got {unknown[0]!r}. Rename or remove it."
        )
    files: list[Path] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        found = sorted(path for path in (folder / name).rglob("*") if path.suffix.lower() in ENDINGS)
        files += found
        labels += [number] * len(found)
    return files, np.array(labels, np.int64)


def read_folders(
    root: Path, parts: dict[SplitName, str], size: int, division: Division, *, in_memory: bool = True
) -> Splits:
    """Make splits of folders of pictures.

    Args:
        root: Holds them.
        parts: Name of the folder of each part.
        size: Pixels per side.
        division: Who gets which pictures.
        in_memory: Whether all are read at once; else each when it is needed.

    Returns:
        The three splits.

    Raises:
        InputError: If there is nothing to read.
    """
    if size < 1:
        raise InputError(f"Expected size to be at least 1 pixel, but got {size}. Write size=64")
    _pillow()
    classes = sorted(each.name for each in (root / parts["train"]).iterdir() if each.is_dir())
    inputs, labels = {}, {}
    marks: dict[SplitName, list[str]] | None = None if in_memory else {}
    for part, name in parts.items():
        files, labels[part] = pictures_in(root / name, classes)
        if not files:
            raise InputError(f"Expected pictures in {root / name}/CLASS/, but there are none. Put some there.")
        inputs[part] = Pictures(files, size)
        if marks is not None:
            marks[part] = [f"{file.relative_to(root).as_posix()} {file.stat().st_size}" for file in files]
    return splits_from_rows(inputs, labels, origin=str(root), division=division, class_names=classes, marks=marks)


@DATA.register("image_folder", licence="yours")
def image_folder(
    *,
    path: str,
    size: int = 64,
    calibration: float = 0.2,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    in_memory: bool = True,
) -> Splits:
    """Your pictures as FOLDER/train/CLASS/*.jpg and FOLDER/test/… (or val/…): image_folder:FOLDER.

    With all of train, val and test, val is the calibration split. Needs the extra ``images``.

    Args:
        path: The folder.
        size: Pixels per side; pictures are cut to their central square and scaled to it.
        calibration: Where there is no third folder, the share of the training pictures to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many; the others are not even read.
        n_test: Test on no more than so many.
        in_memory: Read all pictures at the start; false reads each when it is needed, for more than memory holds. Then
            names and sizes of the files, not their content, tell one data set from another.

    Returns:
        The three splits.

    Raises:
        InputError: If a folder is missing, or a file is no picture.
    """
    root = Path(path).expanduser()
    there = {name for name in ("train", "val", "test") if (root / name).is_dir()}
    if "train" not in there or len(there) < 2:
        raise InputError(
            f"Expected folders train and test (or val) in {root}, but it has {', '.join(sorted(there)) or 'neither'}. "
            "Put one folder per class into each."
        )
    parts: dict[SplitName, str] = {"train": "train", "test": "test" if "test" in there else "val"}
    if len(there) == 3:
        parts["calibration"] = "val"
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    return read_folders(root, parts, size, division, in_memory=in_memory)


@DATA.register("imagenet", marks=IMAGENET, licence="for non-commercial research")
def imagenet(
    *,
    path: str | None = None,
    size: int = 64,
    calibration: float = 0.2,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    in_memory: bool = True,
) -> Splits:
    """ImageNet as folders train/WNID and val/WNID; a fifth of val calibrates, the rest tests.

    Needs the extra ``images``. All 1,281,167 pictures at size 64 take 63 GB as floats: choose n_train and size, or
    in_memory=false.

    Args:
        path: The folder with train and val; else it is searched for.
        size: Pixels per side; pictures are cut to their central square and scaled to it.
        calibration: Share of the validation pictures to calibrate on.
        split_seed: Determines which ones.
        n_train: Train on no more than so many; the others are not even read.
        n_test: Test on no more than so many.
        in_memory: Read all pictures at the start; false reads each when it is needed, for more than memory holds. Then
            names and sizes of the files, not their content, tell one data set from another.

    Returns:
        The three splits.
    """
    root = locate("imagenet", IMAGENET, path).parent
    if not (root / "train").is_dir():
        raise InputError(f"Expected folders train and val in {root}, but there is no train. Put it there.")
    division = Division(calibration, "test", split_seed, n_train, n_test)
    return read_folders(root, {"train": "train", "test": "val"}, size, division, in_memory=in_memory)
