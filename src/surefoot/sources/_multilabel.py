"""Several labels per row: which columns are probabilities, which say whether a label is true, and what they hold."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.sources._cells import Column, floats, texts
from surefoot.sources._columns import pick_columns
from surefoot.sources.groups import group_columns
from surefoot.sources.labels import MISSING, Array
from surefoot.sources.names import label_column
from surefoot.sources.readers import Batches, Columns
from surefoot.sources.source import SUM_TOLERANCE, Raw, Source, rows_per_chunk
from surefoot.sources.told import Said
from surefoot.sources.weights import as_weights, pick_weights

_TRUE = re.compile(r"^(?:label|true|truth|y|y_true|target|gt)[_.\s\[/-]+(?P<name>[^\]]+)\]?$", re.IGNORECASE)
_NO_COLUMN = "\0"  # labels have columns of their own here
_BETWEEN = re.compile(r"\s*[;|,]\s*")


def settled_labels(source: Source, kind: Said | None, first: Raw) -> Source:
    """Settle what the scores of several labels per row are.

    Args:
        source: Where the rows are from.
        kind: What the scores are, where somebody said so.
        first: The first rows.

    Returns:
        The source, all settled.

    Raises:
        InputError: If there is not one label per score.
    """
    shape = first.scores.shape
    if len(shape) != 2 or first.labels.shape != shape:
        raise InputError(
            f"Expected as many labels as scores in every row, but got scores {shape} and labels "
            f"{first.labels.shape} in {source.where}. Save a matrix of 1 and 0, or name the labels that are true."
        )
    if source.class_names and len(source.class_names) != shape[1]:
        raise InputError(
            f"Expected {shape[1]} class names, one per column of scores, but got {len(source.class_names)} in "
            f"{source.where}."
        )
    finite = first.scores[np.isfinite(first.scores)]
    shares = bool(len(finite)) and float(finite.min()) >= 0 and float(finite.max()) <= 1
    told: Said = kind or source.kind or ("probs" if shares else "logits")
    how = "as you said" if kind else "by name" if source.kind else "by their values"
    took = f"{source.took} ({told}, {how}); several labels per row, each true or not by itself"
    return replace(
        source,
        form="multilabel",
        kind="logits" if told == "logits" else "probs",
        percent=told == "percent",
        n_classes=shape[1],
        settled=True,
        took=took,
    )


def has_several(first: Raw) -> bool:
    """Return whether labels are a matrix of 1 and 0 in which rows have none, or several.

    Example:
        >>> has_several(Raw(np.zeros((2, 2)), np.array([[1, 1], [0, 1]])))
        True
        >>> has_several(Raw(np.zeros((2, 2)), np.array([[1, 0], [0, 1]])))
        False
    """
    labels = first.labels
    if labels.ndim != 2 or labels.shape != first.scores.shape or labels.dtype.kind not in "fiub":
        return False
    return bool(np.isin(labels, (0, 1)).all()) and bool((labels.sum(axis=1) != 1).any())


def open_label_columns(
    where: str,
    batches: Batches,
    groups: tuple[str, ...],
    label: str | None,
    scores: tuple[str, ...],
    said: bool,
    weights: str | bool | None = None,
) -> Source | None:
    """Make a source of a table with a column of scores per label.

    Whether a label is true stands in a column of its own, ``label_cat`` beside ``prob_cat``; or one column lists the
    names of those that are true.

    Args:
        where: The file, for messages.
        batches: Reads it.
        groups: Columns that divide the rows into slices.
        label: The column that lists names, where its name does not tell.
        scores: The score columns, where their names do not tell.
        said: Whether somebody said that rows have several labels; then texts such as ``cat;dog`` are lists too.
        weights: The column that says how much a row counts, where its name does not tell; False for none.

    Returns:
        The source, not yet settled; None if the table is of another kind.

    Raises:
        InputError: If there is no such column, or labels could as well be one true class per row.
    """
    with closing(batches(64, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    picks = pick_columns(scores or first, _NO_COLUMN)
    if not picks:
        return None
    pick = picks[0]
    own = {match["name"]: name for name in first if (match := _TRUE.match(name)) and name not in pick.scores}
    if label is None and all(name in own for name in pick.class_names):
        truth: Sequence[str] = [own[name] for name in pick.class_names]
        if not said:
            _check_not_one(first, pick.scores, truth, where)
    else:
        rest = [name for name in first if name not in pick.scores]
        found = label or (label_column(rest, where) if said or not own else None)
        if found is None or not _names_labels(first.get(found, ()), said):
            return None
        truth = [found]
    groups = group_columns(groups, first)
    if missing := [name for name in (*groups, *([weights] if isinstance(weights, str) else [])) if name not in first]:
        raise InputError(f"Expected a column {missing[0]!r}, but {where} has {', '.join(first)}. Check its name.")
    weight, notes = pick_weights(first, weights, {*groups, *pick.scores, *truth}, "Column")
    names = list(dict.fromkeys((*pick.scores, *truth, *groups, *([weight] if weight else []))))

    def start() -> Generator[Raw]:
        row = 0
        with closing(batches(rows_per_chunk(len(pick.scores)), names, pick.scores)) as reading:
            for columns, share in reading:
                values = np.stack([floats(columns[name], name, row, where) for name in pick.scores], axis=1)
                if len(truth) > 1:
                    true = np.stack([floats(columns[name], name, row, where) for name in truth], axis=1)
                else:
                    true = _from_names(columns[truth[0]], pick.class_names, row, where)
                counts = floats(columns[weight], weight, row, where) if weight else None
                yield Raw(values, true, {name: texts(columns[name]) for name in groups}, share, counts)
                row += len(values)

    def start_labels() -> Generator[Array]:
        return (raw.labels for raw in start())

    labels = f"{truth[0]!r}" if len(truth) == 1 else f"{truth[0]!r}…{truth[-1]!r}"
    took = f"{pick.scores[0]!r}…{pick.scores[-1]!r} as {pick.kind or 'scores'}, {labels} as labels" + as_weights(weight)
    columns = (pick.scores, truth[0])
    source = Source(pick.model, pick.split, took, pick.kind, pick.class_names, where, columns, start, start_labels)
    return replace(source, form="multilabel", weights=weight, notes=notes)


def _check_not_one(first: Columns, scores: Sequence[str], truth: Sequence[str], where: str) -> None:
    """Refuse what could as well be one true class per row: labels and scores that sum to 1 everywhere."""
    sums = [np.stack([floats(first[name], name, 0, where) for name in names]).sum(0) for names in (truth, scores)]
    if bool((sums[0] == 1).all()) and bool((np.abs(sums[1] - 1) <= SUM_TOLERANCE).all()):
        raise InputError(
            f"Expected labels that tell whether several can be true, but in all first rows of {where} one is, and "
            "scores sum to 1. Say --form multilabel, or give one column of labels."
        )


def _names_labels(values: Column, said: bool) -> bool:
    """Return whether a column lists names: as lists, or where it was said as texts."""
    if isinstance(values, np.ndarray):
        return False
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        return all(isinstance(each, str) for value in lists for each in value)
    return said and all(isinstance(value, str) or value is None for value in values)


def _from_names(values: Column, names: Sequence[str], start: int, where: str) -> Array:
    places = {name.strip(): place for place, name in enumerate(names)}
    found = np.zeros((len(values), len(names)))
    for row, value in enumerate(values):
        for each in _listed(value):
            if each not in places:
                raise InputError(
                    f"Expected labels among {', '.join(names[:5])}, but row {start + row} has {each!r} in "
                    f"{where}. Give a column of scores for each, or correct it."
                )
            found[row, places[each]] = 1
    return found


def _listed(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(each).strip() for each in value]
    text = "" if value is None else str(value).strip()
    return [] if text.lower() in MISSING else _BETWEEN.split(text)
