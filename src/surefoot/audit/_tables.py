"""What the columns of a table are: a column per class, or a list of scores per row."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.audit._names import Kind, Pick, label_column, pick_arrays, pick_columns, take_apart
from surefoot.audit._readers import Batches, Columns, read_table
from surefoot.audit._source import Array, Chunk, Source, clean, rows_per_chunk
from surefoot.errors import InputError

_NO_SCORES = {"", "id", "idx", "index", "row", "unnamed: 0", "confidence", "conf", "correct", "weight", "fold"}


def open_table(path: Path, group_names: tuple[str, ...], label: str | None) -> list[Source]:
    """List the predictions in a table.

    Args:
        path: The file.
        group_names: Columns that divide the rows into slices.
        label: The label column, where its name does not tell.

    Returns:
        One source per model.

    Raises:
        InputError: If the file cannot be read or its columns do not tell what they are.
    """
    batches = read_table(path)
    with closing(batches(64, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    if not any(len(values) for values in first.values()):
        raise InputError(f"Expected at least one row, but {path.name} has none. Check the file.")
    if missing := [name for name in (*group_names, *([label] if label else [])) if name not in first]:
        raise InputError(f"Expected a column {missing[0]!r}, but {path.name} has {_shown(first)}. Check its name.")
    picks = [pick for pick in _picks(first, group_names, label) if pick.labels not in pick.scores]
    if not picks:
        raise InputError(
            f"Expected a label column and scores such as logit_0, logit_1 or prob_cat, prob_dog, but {path.name} has "
            f"{_shown(first)}. Rename them, or say which with --labels."
        )
    return [_source(path, batches, pick, group_names) for pick in picks]


def _picks(first: Columns, group_names: tuple[str, ...], label: str | None) -> list[Pick]:
    lists = [name for name, values in first.items() if _is_list(values)]
    if lists:
        known = {name: part.role for name in first if (part := take_apart(name))}
        usable = [name for name in first if name in lists or known.get(name) in ("labels", "classes")]
        picks, classes = pick_arrays(usable, label)
        if classes is None:
            return picks
        names = tuple(str(name) for name in np.asarray(first[classes]).ravel())
        return [replace(pick, class_names=names) for pick in picks]
    if picks := pick_columns([name for name in first if name not in group_names], label):
        return picks
    label = label or label_column(first)
    rest = [name for name in first if name != label and name not in group_names]
    scores = [name for name in rest if _may_be_a_score(name, first[name])]
    if label is None:
        return []
    if len(scores) > 1:  # by elimination; the columns are called as the classes
        return [Pick("", "", tuple(scores), None, label, tuple(scores))]
    single, _ = pick_arrays([name for name in rest if _are_numbers(first[name])], label)
    return single[:1]


def _is_list(values: Sequence[Any] | Array) -> bool:
    return values.ndim == 2 if isinstance(values, np.ndarray) else isinstance(values[0], list)


def _are_numbers(values: Iterable[Any]) -> bool:
    try:
        return all(np.isfinite(float(value)) for value in values)
    except (TypeError, ValueError):
        return False


def _may_be_a_score(name: str, values: Sequence[Any] | Array) -> bool:
    """Leave out running numbers and predicted classes: whole numbers other than 0 and 1."""
    if name.lower() in _NO_SCORES or take_apart(name) is not None or not _are_numbers(values):
        return False
    numbers = [float(value) for value in values]
    return not all(number.is_integer() for number in numbers) or set(numbers) <= {0.0, 1.0}


def _source(path: Path, batches: Batches, pick: Pick, group_names: tuple[str, ...]) -> Source:
    names = list(dict.fromkeys((*pick.scores, pick.labels, *group_names)))

    def start(kind: Kind | None) -> Generator[Chunk]:
        row = 0
        several = len(pick.scores) > 1  # a single column may hold lists of any length
        n = rows_per_chunk(len(pick.scores) if several else 100)
        with closing(batches(n, names, pick.scores if several else ())) as reading:
            for columns, share in reading:
                scores = _scores(columns, pick, row, path.name)
                labels = _labels(columns[pick.labels])
                values, numbers = clean(scores, labels, kind, row, pick.class_names, path.name)
                yield Chunk(values, numbers, {name: _texts(columns[name]) for name in group_names}, share)
                row += len(numbers)

    what = pick.scores[0] if len(pick.scores) == 1 else f"{pick.scores[0]}…{pick.scores[-1]}"
    took = f"{what!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels"
    return Source(pick.model, pick.split, took, pick.kind, pick.class_names, start, (pick.scores, pick.labels))


def _scores(columns: Mapping[str, Sequence[Any] | Array], pick: Pick, start: int, where: str) -> Array:
    values = [_floats(columns[name], name, start, where) for name in pick.scores]
    return values[0] if len(values) == 1 else np.stack(values, axis=1)


def _floats(values: Sequence[Any] | Array, name: str, start: int, where: str) -> Array:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return values
    try:
        if isinstance(values[0], str):
            return np.fromiter(map(float, values), np.float64, len(values))
        return np.array(values, np.float64)
    except (ValueError, TypeError) as error:
        lengths = sorted({len(value) for value in values if isinstance(value, list)})
        if len(lengths) > 1:
            raise InputError(
                f"Expected as many scores in every row, but got {lengths[:4]} in {where}. Mend the short ones."
            ) from error
        row = next((i for i, value in enumerate(values) if not _are_numbers(np.ravel(value))), 0)
        raise InputError(
            f"Expected numbers in {name!r}, but row {start + row} has {values[row]!r} in {where}. Leave it out."
        ) from error


def _labels(values: Sequence[Any] | Array) -> Array:
    return values if isinstance(values, np.ndarray) and values.dtype.kind != "O" else _texts_or_numbers(values)


def _texts_or_numbers(values: Sequence[Any] | Array) -> Array:
    if any(value is None or isinstance(value, str) for value in values):
        return np.array(["" if value is None else str(value) for value in values])
    return np.asarray(values)


def _texts(values: Sequence[Any] | Array) -> Array:
    return np.array([str(value) for value in values])


def _shown(columns: Iterable[str]) -> str:
    names = list(columns)
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "none"
