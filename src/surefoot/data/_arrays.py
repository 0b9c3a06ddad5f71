"""From plain arrays to checked splits; every data set goes through here."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from surefoot.data._divide import DEFAULT, Array, Division, divide
from surefoot.errors import InputError
from surefoot.scaling import Scaling
from surefoot.schema import SPLITS, Split, SplitName, Splits


class Readable(Protocol):
    """An array, or whatever reads rows when they are asked for."""

    def __getitem__(self, rows: Array, /) -> Array:
        """Give these rows."""


def splits_from_arrays(
    arrays: Mapping[str, Any],
    *,
    origin: str,
    division: Division = DEFAULT,
    class_names: Sequence[str] | None = None,
) -> Splits:
    """Check arrays and make them splits that a network can be trained on.

    Bytes are taken for pixels: they become channels-first floats, standardised channel by channel with the mean
    and standard deviation of the training split. Floats are left as they are.

    Args:
        arrays: ``x_train``, ``y_train``, ``x_test``, ``y_test`` and, where the data come with a calibration
            split of their own, ``x_calibration`` and ``y_calibration``.
        origin: Where they come from, for error messages.
        division: How many of them to use and, where there is no calibration split, how to set one aside.
        class_names: One name per class; else the class numbers.

    Returns:
        The three splits.

    Raises:
        InputError: If something is missing, empty, not finite or does not fit together.
    """
    missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in arrays]
    if missing:
        raise InputError(
            f"Expected {origin} to hold {', '.join(missing)}, but it holds {', '.join(arrays) or 'nothing'}."
        )
    found = {name: _pair(arrays, name, origin) for name in SPLITS if f"x_{name}" in arrays}
    return splits_from_rows(
        {name: x for name, (x, _) in found.items()},
        {name: y for name, (_, y) in found.items()},
        origin=origin,
        division=division,
        class_names=class_names,
    )


def splits_from_rows(
    inputs: Mapping[SplitName, Readable],
    labels: Mapping[SplitName, Array],
    *,
    origin: str,
    division: Division = DEFAULT,
    class_names: Sequence[str] | None = None,
) -> Splits:
    """Divide what can be read row by row; what no split needs is never read.

    Args:
        inputs: Of the published parts; each gives an array for an array of row numbers.
        labels: Of the same parts, as int64.
        origin: Where they come from, for error messages.
        division: Who gets which rows.
        class_names: One name per class; else the class numbers.

    Returns:
        The three splits.
    """
    rows = divide(labels, division)
    sources: dict[SplitName, SplitName] = {name: rows[name].source for name in SPLITS}  # type: ignore[misc]  # a part has the name of a split
    parts = {
        name: (inputs[sources[name]][rows[name].numbers], labels[sources[name]][rows[name].numbers]) for name in SPLITS
    }
    n_classes = len(class_names) if class_names else _count_classes(parts["train"][1], origin)
    for name, (x, y) in parts.items():
        _check(x, y, parts["train"][0], n_classes, f"{origin}, {name} split")
    scaling = _scaling(parts["train"][0])
    splits = {name: Split(_inputs(x, scaling), torch.from_numpy(y), rows[name]) for name, (x, y) in parts.items()}
    names = tuple(class_names or map(str, range(n_classes)))
    return Splits(**splits, class_names=names, fingerprint=_fingerprint(parts), scaling=scaling)


def relabel(
    splits: Splits, labels: Array, *, origin: str, names: Sequence[SplitName] = ("train", "calibration")
) -> Splits:
    """Give examples of the published training part other labels; the division stays as it is.

    Args:
        splits: A data set whose rows are known.
        labels: One per row of the published training part, in its order.
        origin: Where they come from, for error messages.
        names: Which splits; one that comes from another part keeps its labels.

    Returns:
        The same examples with the new labels; the test split is left alone.

    Raises:
        InputError: If it is not known which rows were trained on, there are not enough labels, or one is no class.
    """
    rows = {name: found.numbers for name in names if (found := splits[name].rows) and found.source == "train"}
    if "train" not in rows:
        raise InputError(
            f"Expected data that say which published rows they are trained on, but these do not. Give {origin} to "
            "another data set."
        )
    changed: dict[SplitName, Array] = {}
    for name, numbers in rows.items():
        if numbers.max() >= len(labels):
            raise InputError(
                f"Expected a label for each training example, row {numbers.max()} included, but {origin} "
                f"has {len(labels)}. Use both files as published, or a subset with n_train."
            )
        changed[name] = labels[numbers].astype(np.int64)
        _check_labels(changed[name], splits.n_classes, origin)
    return with_labels(splits, changed)


def with_labels(splits: Splits, labels: Mapping[SplitName, Array]) -> Splits:
    """Exchange the labels of some splits; the fingerprint tells."""
    digest = hashlib.sha256(splits.fingerprint.encode())
    changed: dict[str, Any] = {}
    for name, new in labels.items():
        digest.update(new.tobytes())
        changed[name] = dataclasses.replace(splits[name], labels=torch.from_numpy(new))
    return dataclasses.replace(splits, fingerprint=digest.hexdigest(), **changed)


def _pair(arrays: Mapping[str, Any], name: SplitName, origin: str) -> tuple[Array, Array]:
    if f"y_{name}" not in arrays:
        raise InputError(f"Expected {origin} to hold y_{name} beside x_{name}, but it does not. Add the labels.")
    inputs, labels = np.asarray(arrays[f"x_{name}"]), np.asarray(arrays[f"y_{name}"]).squeeze()
    where = f"{origin}, {name} split"
    if inputs.dtype.kind not in "fiub" or inputs.ndim < 2:
        raise InputError(f"Expected numeric inputs (n, …), but got {inputs.dtype} {inputs.shape} in {where}.")
    labels = np.atleast_1d(labels)
    if labels.ndim != 1 or len(labels) != len(inputs):
        raise InputError(f"Expected one label per input, but got {inputs.shape} and {labels.shape} in {where}.")
    if labels.dtype.kind not in "iu" and not (labels.dtype.kind == "f" and np.array_equal(labels, np.floor(labels))):
        raise InputError(
            f"Expected whole numbers as labels, but got {labels.dtype} in {where}. Number the classes from 0."
        )
    return inputs, labels.astype(np.int64)


def _check(inputs: Array, labels: Array, reference: Array, n_classes: int, where: str) -> None:
    if not len(labels):
        raise InputError(
            f"Expected at least one example, but got an empty {where}. Give it some, or change the shares."
        )
    if inputs.shape[1:] != reference.shape[1:]:
        raise InputError(
            f"Expected inputs like those for training, {reference.shape[1:]}, but got {inputs.shape[1:]} in {where}."
        )
    _check_labels(labels, n_classes, where)
    if inputs.dtype.kind == "f":
        bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if bad.any():
            raise InputError(
                f"Expected finite inputs, but {int(bad.sum())} of {len(inputs)} hold NaN or infinity, first at row "
                f"{int(bad.argmax())}, in {where}. Drop or repair them."
            )


def _check_labels(labels: Array, n_classes: int, where: str) -> None:
    if labels.min() < 0 or labels.max() >= n_classes:
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, but got {worst} in {where}. Number the classes from 0."
        )


def _count_classes(labels: Array, origin: str) -> int:
    """The training split must know all classes; a label beyond the number of examples is no class number."""
    highest = int(labels.max(initial=0))
    if highest > len(labels):
        raise InputError(f"Expected classes numbered from 0, but got label {highest} in {origin}. Renumber them.")
    return highest + 1


def _scaling(train: Array) -> Scaling | None:
    """Bytes are pixels: measure them channel by channel."""
    if train.dtype != np.uint8:
        return None
    pixels = _channels_first(train)
    axes = (0, *range(2, pixels.ndim))
    mean = pixels.mean(axes, dtype=np.float64).astype(np.float32)
    std = np.maximum(pixels.std(axes, dtype=np.float64), 1e-6).astype(np.float32)
    return Scaling(tuple(mean.tolist()), tuple(std.tolist()))


def _inputs(raw: Array, scaling: Scaling | None) -> Tensor:
    """Turn one split's raw inputs into what the network sees."""
    if scaling is None:
        return torch.from_numpy(np.ascontiguousarray(raw, np.float32))
    return scaling.to_inputs(torch.from_numpy(np.ascontiguousarray(_channels_first(raw))))


def _channels_first(images: Array) -> Array:
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[-1] in (1, 3, 4) and images.shape[1] not in (1, 3, 4):
        return images.transpose(0, 3, 1, 2)
    return images


def _fingerprint(parts: Mapping[SplitName, tuple[Array, Array]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(parts):
        for array in parts[name]:
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
