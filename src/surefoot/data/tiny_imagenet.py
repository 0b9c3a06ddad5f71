"""Tiny-ImageNet: 200 classes of 64×64 pictures, in folders of its own kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surefoot.data._arrays import splits_from_rows
from surefoot.data._divide import Array, Division
from surefoot.data._places import DataFile, locate
from surefoot.data.image_folder import Pictures, pictures_in
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import Splits

MARKS = (DataFile("wnids.txt", "tiny-imagenet-200"),)


@DATA.register("tiny_imagenet", marks=MARKS, get="tiny_imagenet", licence="none stated")
def tiny_imagenet(
    *,
    path: str | None = None,
    size: int = 64,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
) -> Splits:
    """Tiny-ImageNet, 64×64 colour, 200 classes: 100,000 to train and calibrate; its val, 10,000, to test.

    The published test part has no labels. Needs the extra ``images``.

    Args:
        path: Where tiny-imagenet-200 is; else it is searched for.
        size: Pixels per side, if they are to be scaled.
        calibration: Share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many; the others are not even read.
        n_test: Test on no more than so many.

    Returns:
        The three splits.
    """
    root = locate("tiny_imagenet", MARKS, path, get="tiny_imagenet").parent
    classes = sorted((root / "wnids.txt").read_text().split())
    train, train_labels = pictures_in(root / "train", classes) if (root / "train").is_dir() else ([], np.zeros(0, int))
    test, test_labels = _validation(root / "val", classes)
    if not train:
        raise InputError(f"Expected pictures in {root}/train, but there are none. Get the archive again.")
    return splits_from_rows(
        {"train": Pictures(train, size), "test": Pictures(test, size)},
        {"train": train_labels, "test": test_labels},
        origin="tiny_imagenet",
        division=Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test),
        class_names=_words(root / "words.txt", classes),
    )


def _validation(folder: Path, classes: list[str]) -> tuple[list[Path], Array]:
    """The pictures of val lie in one folder; a table says which class each is of."""
    table = folder / "val_annotations.txt"
    if not table.is_file():
        raise InputError(f"Expected {table}, but it is not there. Get the archive again.")
    number = {name: k for k, name in enumerate(classes)}
    files, labels = [], []
    for line in table.read_text().splitlines():
        file, _, rest = line.partition("\t")
        name = rest.partition("\t")[0]
        if name not in number:
            raise InputError(f"Expected a class of wnids.txt in {table}, but got {name!r}. Get the archive again.")
        files.append(folder / "images" / Path(file).name)
        labels.append(number[name])
    return files, np.array(labels, np.int64)


def _words(file: Path, classes: list[str]) -> list[str]:
    lines = file.read_text().splitlines() if file.is_file() else []
    words = {wnid: text.split(",")[0] for wnid, _, text in (line.partition("\t") for line in lines)}
    return [words.get(name, name) for name in classes]
