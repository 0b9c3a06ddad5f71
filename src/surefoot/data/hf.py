"""Data sets of the Hugging Face hub, or saved by its library ``datasets``, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.data._arrays import splits_from_rows
from surefoot.data._divide import Array, Division
from surefoot.data.streamed import splits_from_streams
from surefoot.data.text import splits_from_texts
from surefoot.errors import InputError
from surefoot.registry import DATA
from surefoot.schema import SplitName, Splits

_PARTS: dict[SplitName, tuple[str, ...]] = {
    "train": ("train",),
    "calibration": ("validation", "valid", "dev"),
    "test": ("test",),
}
_INPUTS = ("image", "img", "text", "sentence")
_LABELS = ("label", "labels", "fine_label")


@DATA.register("hf", licence="see its card")
def hf(
    *,
    name: str,
    config: str | None = None,
    inputs: str | None = None,
    labels: str | None = None,
    vocabulary: int = 256,
    length: int = 48,
    calibration: float = 0.1,
    split_seed: int = 0,
    n_train: int | None = None,
    n_test: int | None = None,
    in_memory: bool = True,
    streaming: bool = False,
) -> Splits:
    """A data set of the Hugging Face hub, pictures or texts: hf:NAME; needs the extra ``hf``.

    Without a test part, or where that has no labels, the validation part tests.

    Args:
        name: As on the hub, such as ``mnist`` or ``org/name``, or a folder written by ``save_to_disk``.
        config: Which configuration, where it has several.
        inputs: Column of pictures or texts; else image, img, text or sentence.
        labels: Column of labels; else label, labels or fine_label.
        vocabulary: For texts: how many different tokens.
        length: For texts: tokens per text.
        calibration: Where no part is left for it, the share of the training examples to set aside.
        split_seed: Determines which ones.
        n_train: Train on no more than so many.
        n_test: Test on no more than so many.
        in_memory: For pictures: decode all at the start; false decodes each when it is needed. Then the library's own
            fingerprint tells one data set from another.
        streaming: For pictures: let them come one after another, without a copy on disk. Labels are read once at the
            start; training draws the next example from a buffer of 10,000.

    Returns:
        The three splits.

    Raises:
        InputError: If the library or the data set is missing, or its columns are something else.
    """
    found = _load(name, config, streaming)
    parts = _parts(found, name, labels)
    train = parts["train"]
    key = _column(train.column_names, inputs, _INPUTS, "inputs", name)
    label = _column(train.column_names, labels, _LABELS, "labels", name)
    names = getattr(train.features[label], "names", None)
    division = Division(calibration, seed=split_seed, n_train=n_train, n_test=n_test)
    if streaming:
        if names is None or isinstance(next(iter(train))[key], str):
            raise InputError(
                f"Expected pictures with named classes in {name} with streaming=true, but got others. Leave it out."
            )
        return splits_from_streams(parts, key, label, origin=name, division=division, class_names=names)
    numbers = {part: np.asarray(table[label], np.int64) for part, table in parts.items()}
    if isinstance(train[0][key], str):
        texts: dict[SplitName, Sequence[str]] = {part: list(table[key]) for part, table in parts.items()}
        return splits_from_texts(
            texts,
            numbers,
            origin=name,
            vocabulary=vocabulary,
            length=length,
            division=division,
            class_names=names,
        )
    columns = {part: _Column(table, key, name) for part, table in parts.items()}
    marks = None if in_memory else {part: [f"{table._fingerprint}"] * len(table) for part, table in parts.items()}
    return splits_from_rows(columns, numbers, origin=name, division=division, class_names=names, marks=marks)


class _Column:
    """Pictures, or rows of numbers, that are decoded when they are asked for."""

    def __init__(self, table: Any, key: str, origin: str) -> None:
        self.table, self.key, self.origin = table, key, origin

    def __getitem__(self, rows: Array) -> Array:
        values = [np.asarray(self.table[int(row)][self.key]) for row in rows]
        shapes = {value.shape for value in values}
        if len(shapes) > 1:
            raise InputError(
                f"Expected inputs of one shape in {self.origin}, but got {' and '.join(map(str, sorted(shapes)[:2]))}. "
                "Choose a data set of equal pictures, or save them as an image folder."
            )
        return np.stack(values)


def _load(name: str, config: str | None, streaming: bool) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "Expected the library datasets, but it is not installed. Run pip install 'surefoot[hf]'."
        ) from error
    try:
        if (Path(name).expanduser() / "dataset_dict.json").is_file():
            found = datasets.load_from_disk(str(Path(name).expanduser()))
            return {part: each.to_iterable_dataset() for part, each in found.items()} if streaming else found
        return datasets.load_dataset(name, config, streaming=streaming)
    except Exception as error:  # whatever the hub, the net or the files say
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(
            f"Expected to load {name!r} from Hugging Face, but {reason}. Check name and config."
        ) from error


def _parts(found: Any, name: str, label: str | None) -> dict[SplitName, Any]:
    there = list(found) if hasattr(found, "keys") else []
    parts = {
        part: found[next(key for key in keys if key in there)]
        for part, keys in _PARTS.items()
        if any(key in there for key in keys)
    }
    if "test" in parts and _unlabelled(parts["test"], label):
        del parts["test"]
    if "test" not in parts and "calibration" in parts:
        parts["test"] = parts.pop("calibration")
    if "train" not in parts or "test" not in parts:
        raise InputError(
            f"Expected parts train and test with labels in {name}, but it has {', '.join(there) or 'none'}. "
            "Choose another config."
        )
    return parts


def _unlabelled(table: Any, label: str | None) -> bool:
    key = next((key for key in ((label,) if label else _LABELS) if key in table.column_names), None)
    if key is None:
        return True
    values = (row[key] for row in table.take(1)) if not hasattr(table, "__len__") else table[key]
    return min(values, default=-1) < 0


def _column(there: Sequence[str], wanted: str | None, known: Sequence[str], what: str, name: str) -> str:
    found = next((key for key in ((wanted,) if wanted else known) if key in there), None)
    if found is None:
        raise InputError(
            f"Expected {wanted or ' or '.join(known)} among the columns of {name}, but got {', '.join(there)}. "
            f"Write {what}=COLUMN"
        )
    return found
