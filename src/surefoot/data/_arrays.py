"""From plain arrays to checked splits; every data set goes through here."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from surefoot.data._classes import check_labels, check_some_choice, count_classes, read_labels, renumbered
from surefoot.data._divide import DEFAULT, Array, Division, divide
from surefoot.data._standardise import Kind, check_same_scale, kind_of, measure, to_inputs
from surefoot.data.stored import MEASURED, Readable, Stored, unread_splits
from surefoot.errors import InputError
from surefoot.schema import SPLITS, Rows, Split, SplitName, Splits
from surefoot.seeding import generator


def splits_from_arrays(
    arrays: Mapping[str, Any],
    *,
    origin: str,
    division: Division = DEFAULT,
    class_names: Sequence[str] | None = None,
    renumber: bool = False,
    kind: str | None = None,
) -> Splits:
    """Check arrays and make them splits that a network can be trained on.

    Bytes are taken for pixels, floats for features. Both are standardised with mean and standard deviation of the
    training split: pictures channel by channel, in channels-first order, anything else position by position.

    Args:
        arrays: ``x_train``, ``y_train``, ``x_test``, ``y_test`` and, where the data come with a calibration
            split of their own, ``x_calibration`` and ``y_calibration``.
        origin: Where they come from, for error messages.
        division: How many of them to use and, where there is no calibration split, how to set one aside.
        class_names: One name per class; else the class numbers.
        renumber: Take the values among the training labels as the classes, instead of 0…K−1.
        kind: ``"pixels"``, ``"features"``, or ``"raw"`` for inputs that stay as they are; None goes by their type.

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
    found = {name: _inputs_of(arrays, name, origin) for name in SPLITS if f"x_{name}" in arrays}
    raw = {name: arrays[f"y_{name}"] for name in found}
    if renumber:
        labels, class_names = renumbered(raw, origin)
    else:
        labels = {name: read_labels(of_one, f"{origin}, {name} split") for name, of_one in raw.items()}
    return splits_from_rows(found, labels, origin=origin, division=division, class_names=class_names, kind=kind)


def splits_from_rows(
    inputs: Mapping[SplitName, Readable],
    labels: Mapping[SplitName, Array],
    *,
    origin: str,
    division: Division = DEFAULT,
    class_names: Sequence[str] | None = None,
    kind: str | None = None,
    marks: Mapping[SplitName, Sequence[str]] | None = None,
) -> Splits:
    """Divide what can be read row by row; what no split needs is never read.

    Args:
        inputs: Of the published parts; each gives an array for an array of row numbers.
        labels: Of the same parts, as int64.
        origin: Where they come from, for error messages.
        division: Who gets which rows.
        class_names: One name per class; else the class numbers, all of which must be there.
        kind: What the inputs are, see :func:`splits_from_arrays`.
        marks: Leave the inputs in their files: one text per row tells them apart, such as a file's name and size.

    Returns:
        The three splits.
    """
    names = tuple(class_names or map(str, range(count_classes(labels, origin))))
    rows = divide(labels, division)
    sources: dict[SplitName, SplitName] = {name: rows[name].source for name in SPLITS}  # type: ignore[misc]  # a part has the name of a split
    if marks is not None:
        return _stored_splits(inputs, labels, rows, marks, names, origin, kind)
    parts = {
        name: (inputs[sources[name]][rows[name].numbers], labels[sources[name]][rows[name].numbers]) for name in SPLITS
    }
    reference = parts["train"][0]
    for name, (x, y) in parts.items():
        _check(x, y, reference, len(names), f"{origin}, {name} split")
    check_some_choice(parts["train"][1], names, f"{origin}, train split")
    known = kind_of(reference, kind, origin)
    scaling = measure(reference, known)
    splits = {
        name: Split(to_inputs(x, scaling, known), torch.from_numpy(y), rows[name]) for name, (x, y) in parts.items()
    }
    if known == "features":
        for name, split in splits.items():
            check_same_scale(split.inputs, f"{origin}, {name} split")
    return Splits(**splits, class_names=names, fingerprint=_fingerprint(parts, known), scaling=scaling)


def _stored_splits(
    inputs: Mapping[SplitName, Readable],
    labels: Mapping[SplitName, Array],
    rows: Mapping[SplitName, Rows],
    marks: Mapping[SplitName, Sequence[str]],
    names: tuple[str, ...],
    origin: str,
    kind: str | None,
) -> Splits:
    """Make splits whose inputs stay in their files; some training rows, drawn once and for all, give the scaling."""
    train = rows["train"]
    chosen = torch.randperm(len(train.numbers), generator=generator(0, "measured rows"))[:MEASURED].sort().values
    sample = inputs["train"][train.numbers[chosen.numpy()]]

    def mark(name: SplitName, part: SplitName, numbers: Array, own: Array) -> bytes:
        pairs = zip(numbers.tolist(), own.tolist(), strict=True)
        return "".join(f"{name} {marks[part][number]} {label}\n" for number, label in pairs).encode()

    return unread_splits(
        sample,
        labels,
        rows,
        names,
        origin=origin,
        kind=kind,
        hold=lambda part, *seen: Stored(inputs[part], *seen),
        mark=mark,
        known_by=lambda scaling, known, shape: f"stored {known} {shape}",
    )


def relabel(
    splits: Splits, labels: Array, *, origin: str, names: Sequence[SplitName] = ("train", "calibration")
) -> Splits:
    """Return examples of the published training part other labels; the division stays as it is.

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
        check_labels(changed[name], splits.n_classes, origin)
    return with_labels(splits, changed)


def with_labels(splits: Splits, labels: Mapping[SplitName, Array]) -> Splits:
    """Exchange the labels of some splits; the fingerprint tells."""
    digest = hashlib.sha256(splits.fingerprint.encode())
    changed: dict[str, Any] = {}
    for name, new in labels.items():
        digest.update(new.tobytes())
        changed[name] = dataclasses.replace(splits[name], labels=torch.from_numpy(new))
    return dataclasses.replace(splits, fingerprint=digest.hexdigest(), **changed)


def _inputs_of(arrays: Mapping[str, Any], name: SplitName, origin: str) -> Array:
    inputs = np.asarray(arrays[f"x_{name}"])
    where = f"{origin}, {name} split"
    if inputs.dtype.kind not in "fiub" or inputs.ndim < 2:
        raise InputError(f"Expected numeric inputs (n, …), but got {inputs.dtype} {inputs.shape} in {where}.")
    if f"y_{name}" not in arrays:
        raise InputError(f"Expected {origin} to hold y_{name} beside x_{name}, but it does not. Add the labels.")
    shape = np.atleast_1d(np.asarray(arrays[f"y_{name}"]).squeeze()).shape
    if len(shape) != 1 or shape[0] != len(inputs):
        raise InputError(f"Expected one label per input, but got {inputs.shape} and {shape} in {where}.")
    return inputs


def _check(inputs: Array, labels: Array, reference: Array, n_classes: int, where: str) -> None:
    if not len(labels):
        raise InputError(
            f"Expected at least one example, but got an empty {where}. Give it some, or change the shares."
        )
    if inputs.shape[1:] != reference.shape[1:]:
        raise InputError(
            f"Expected inputs like those for training, {reference.shape[1:]}, but got {inputs.shape[1:]} in {where}."
        )
    if inputs.dtype != reference.dtype and not inputs.dtype.kind == reference.dtype.kind == "f":
        raise InputError(
            f"Expected inputs like those for training, {reference.dtype}, but got {inputs.dtype} in {where}. "
            "Save all splits in the same way."
        )
    check_labels(labels, n_classes, where)
    if inputs.dtype.kind == "f":
        bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if bad.any():
            raise InputError(
                f"Expected finite inputs, but {int(bad.sum())} of {len(inputs)} hold NaN or infinity, first at row "
                f"{int(bad.argmax())}, in {where}. Drop or repair them."
            )


def _fingerprint(parts: Mapping[SplitName, tuple[Array, Array]], kind: Kind) -> str:
    digest = hashlib.sha256(kind.encode())
    for name in sorted(parts):
        for array in parts[name]:
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
