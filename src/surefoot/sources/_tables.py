"""What the columns of a table are: a column per class, or a list of scores per row."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._cells import Column, choices, floats, labels, texts
from surefoot.sources._columns import by_hand, pick_by_values, pick_columns
from surefoot.sources._header import is_fraction
from surefoot.sources.choices import is_ragged
from surefoot.sources.groups import group_columns
from surefoot.sources.labels import Array, texts_of
from surefoot.sources.names import (
    Pick,
    label_column,
    pick_arrays,
    picked_by_hand,
    take_apart,
)
from surefoot.sources.readers import Batches, Columns
from surefoot.sources.source import Raw, Source, rows_per_chunk
from surefoot.sources.weights import as_weights, pick_weights


def open_table(
    where: str,
    batches: Batches,
    group_names: tuple[str, ...],
    label: str | None,
    scores: tuple[str, ...] = (),
    *,
    weights: str | bool | None = None,
    names_once: bool = False,
    named: bool = True,
) -> list[Source]:
    """List the predictions in a table.

    Args:
        where: The file, for messages.
        batches: Reads it.
        group_names: Columns that divide the rows into slices.
        label: The label column, where its name does not tell.
        scores: The score columns, where their names do not tell.
        weights: The column that says how much a row counts, where its name does not tell; False for none.
        names_once: Whether a column of class names holds one per class instead of one per row.
        named: Whether the columns have names; else they are numbers, and all but the labels are scores.

    Returns:
        One source per model.

    Raises:
        InputError: If the file cannot be read or its columns do not tell what they are.
    """
    with closing(batches(64, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    if not any(len(values) for values in first.values()):
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    group_names = group_columns(group_names, first)
    said = (*group_names, *([label] if label else []), *scores, *([weights] if isinstance(weights, str) else []))
    if missing := [name for name in said if name not in first]:
        raise InputError(f"Expected a column {missing[0]!r}, but {where} has {_shown(first)}. Check its name.")
    label = label or label_column([name for name in first if name not in scores], where)
    if not named:
        return _unnamed(where, batches, first, group_names, label, scores, weights)
    picks = [] if label is None else _picks(where, batches, first, group_names, label, scores, names_once)
    picks = [pick for pick in picks if pick.labels not in pick.scores]
    if not picks:
        raise InputError(
            f"Expected a label column and scores such as logit_0, logit_1 or prob_cat, prob_dog, but {where} has "
            f"{_shown(first)}. Rename them, or say which with --labels and --scores{_or_no_header(first)}."
        )
    used = {*group_names, *(name for pick in picks for name in (*pick.scores, pick.labels))}
    weight, notes = pick_weights(first, weights, used, "Column")
    return [replace(_source(where, batches, first, pick, group_names, weight), notes=notes) for pick in picks]


def _unnamed(
    where: str,
    batches: Batches,
    first: Columns,
    group_names: tuple[str, ...],
    label: str | None,
    scores: tuple[str, ...],
    weights: str | bool | None,
) -> list[Source]:
    """Take all columns of a table without names for scores, but those that somebody named by their numbers."""
    weight = weights if isinstance(weights, str) else None
    rest = tuple(name for name in first if name not in (label, weight, *group_names))
    if label is None:
        raise InputError(
            f"Expected labels, but {where} has {len(first)} columns without names. Say --labels labels.csv for a "
            f"file of their own, --labels {len(first) - 1} for a column by its number from 0, or --header if the "
            "first line holds names."
        )
    if not (scores or rest):
        raise InputError(f"Expected scores beside the labels, but {where} has none. Give a column per class.")
    return [_source(where, batches, first, Pick("", "", scores or rest, None, label), group_names, weight)]


def _or_no_header(columns: Iterable[str]) -> str:
    """Ask whether a first line with fractions is a row."""
    return "; or, if the first line is a row, --no-header" if any(map(is_fraction, columns)) else ""


def columns_in(batches: Batches) -> tuple[list[str], list[str]]:
    """List the columns of a table, and which of them hold lists."""
    with closing(batches(64, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    return list(first), [name for name, values in first.items() if _is_list(values)]


def _picks(
    where: str,
    batches: Batches,
    first: Columns,
    group_names: tuple[str, ...],
    label: str,
    scores: tuple[str, ...],
    names_once: bool,
) -> list[Pick]:
    lists = [name for name, values in first.items() if _is_list(values)]
    known = {name: part.role for name in first if (part := take_apart(name))}
    usable = [name for name in first if name in lists or known.get(name) in ("labels", "classes")]
    picks, classes = pick_arrays(usable, label, where)
    names = _class_names(first, classes, names_once) if classes else ()
    if len(scores) == 1:
        picks = picked_by_hand(scores[0], [label], label, where)
    elif scores:
        return [by_hand(scores, label)]
    if picks:
        return [replace(pick, class_names=names) for pick in picks]
    rest = [name for name in first if name != label and name not in group_names and name not in lists]
    if picks := pick_columns([label, *rest], label):
        return picks
    return pick_by_values(first, rest, label, lambda: _label_texts(where, batches, label), where)


def _class_names(first: Columns, key: str, names_once: bool) -> tuple[str, ...]:
    """Read names that stand once in a file of columns, or in every row as a list."""
    values = first[key]
    if _is_list(values):
        return tuple(str(name) for name in values[0])
    is_once = names_once and isinstance(values, np.ndarray)
    return tuple(str(name) for name in values) if is_once else ()


def _is_list(values: Column) -> bool:
    return values.ndim == 2 if isinstance(values, np.ndarray) else any(isinstance(value, list) for value in values)


def _width(values: Column) -> int:
    """Count the scores of a row: those of its longest list; one score is of two classes."""
    return max((len(value) if isinstance(value, list | np.ndarray) else 2 for value in values), default=2)


def _label_texts(where: str, batches: Batches, label: str) -> set[str]:
    found: set[str] = set()
    for each in _label_parts(where, batches, label):
        found.update(texts_of(each.ravel()))
    return found


def _label_parts(where: str, batches: Batches, label: str) -> Generator[Array]:
    row = 0
    with closing(batches(rows_per_chunk(1), [label], ())) as reading:
        for columns, _ in reading:
            yield labels(columns[label], row, where)
            row += len(columns[label])


def _source(
    where: str, batches: Batches, first: Columns, pick: Pick, group_names: tuple[str, ...], weight: str | None = None
) -> Source:
    names = list(dict.fromkeys((*pick.scores, pick.labels, *group_names, *([weight] if weight else []))))
    width = max(len(pick.scores), *(_width(first[name]) for name in pick.scores))

    def start() -> Generator[Raw]:
        row = 0
        several = len(pick.scores) > 1  # a single column may hold lists
        with closing(batches(rows_per_chunk(width), names, pick.scores if several else ())) as reading:
            for columns, share in reading:
                groups = {name: texts(columns[name]) for name in group_names}
                found = labels(columns[pick.labels], row, where)
                weights = floats(columns[weight], weight, row, where) if weight else None
                scores, counts = _scores(columns, pick, row, where)
                yield Raw(scores, found, groups, share, weights, counts)
                row += len(found)

    def start_labels() -> Generator[Array]:
        return _label_parts(where, batches, pick.labels)

    def start_groups() -> Generator[Mapping[str, Array]]:
        with closing(batches(rows_per_chunk(len(group_names)), list(group_names), ())) as reading:
            for columns, _ in reading:
                yield {name: texts(columns[name]) for name in group_names}

    what = pick.scores[0] if len(pick.scores) == 1 else f"{pick.scores[0]}…{pick.scores[-1]}"
    took = f"{what!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels" + as_weights(weight)
    columns = (pick.scores, pick.labels)
    found = Source(pick.model, pick.split, took, pick.kind, pick.class_names, where, columns, start, start_labels)
    return replace(found, weights=weight, start_groups=start_groups)


def _scores(columns: Mapping[str, Column], pick: Pick, start: int, where: str) -> tuple[Array, Array | None]:
    if len(pick.scores) == 1 and is_ragged(columns[pick.scores[0]]):
        return choices(columns[pick.scores[0]], pick.scores[0], start, where)
    values = [floats(columns[name], name, start, where) for name in pick.scores]
    return values[0] if len(values) == 1 else np.stack(values, axis=1), None


def _shown(columns: Iterable[str]) -> str:
    names = list(columns)
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") or "none"
