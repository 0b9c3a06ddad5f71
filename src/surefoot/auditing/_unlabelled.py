"""Rows without labels, from a file or from memory, as probabilities of the reference's classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._label_shift import ScoredRows
from surefoot.auditing._sampling import Sample
from surefoot.errors import InputError
from surefoot.places import place
from surefoot.sources.files import SUFFIXES, is_path
from surefoot.sources.labels import Array
from surefoot.sources.memory import Held, as_column, hold
from surefoot.sources.names import take_apart
from surefoot.sources.readers import table_suffix
from surefoot.sources.scores import FittedTo, Scores, find_held_scores, find_scores, has_labels
from surefoot.sources.source import Source
from surefoot.sources.told import Told


@dataclass(frozen=True)
class NewRows:
    """What was read of new rows.

    Attributes:
        n: How many there are.
        scored: A random sample of them, or all.
        mean_risk: Of all; None unless there are two classes.
        took: What was taken for what, for people.
        labelled: Whether the file has labels, which were not looked at.
    """

    n: int
    scored: ScoredRows
    mean_risk: float | None
    took: str
    labelled: bool


def read_new(
    source: Any,
    like: Source,
    n_classes: int,
    positive: int | None,
    most: int,
    where: str,
    model: str | None,
    told: Told,
) -> NewRows:
    """Read rows without labels once.

    Args:
        source: A file, a DataFrame, arrays by name, or an array of scores.
        like: The reference: columns of the same names are taken first.
        n_classes: Of the reference.
        positive: Of two classes, the one whose probability is the risk.
        most: How many rows to keep.
        where: The file, for messages.
        model: Which one, where a file holds several.
        told: What names and values do not tell.

    Returns:
        What is needed of them.

    Raises:
        InputError: If they cannot be read, or are scores of other classes.
    """
    names, _ = like.columns
    fitted = FittedTo(n_classes, like.class_names, tuple(filter(None, names)), like.kind, "of the reference")
    kind, named = told.get("kind") or _kind_of(like), tuple(told.get("scores", ()))
    labelled = False
    if is_path(source):
        path = _check_file(source)
        scores = find_scores(path, fitted, kind, model, named)
        labelled = path.suffix != ".npy" and has_labels(path)
    else:
        held = _held(source, names)
        scores = find_held_scores(held, fitted, kind, named)
        labelled = any(part.role == "labels" for part in map(take_apart, held.columns) if part)
    sample, n, total = Sample("new rows"), 0, 0.0
    for probs in _probs(scores, n_classes, where):
        if positive is not None:
            total += probs[:, positive].sum().item()
        rows = ScoredRows.of(probs, positive)
        sample.add(
            most, np.arange(n, n + len(probs)), rows.predicted.numpy(), *(each.numpy() for each in rows.features)
        )
        n += len(probs)
    if not n:
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    predicted, *features = map(torch.from_numpy, sample.taken())
    mean = total / n if positive is not None else None
    return NewRows(n, ScoredRows(predicted, tuple(features)), mean, scores.took, labelled)


def _kind_of(like: Source) -> Any:
    return "percent" if like.percent else None


def _check_file(source: Any) -> Path:
    path = place("several files" if isinstance(source, list | tuple) else source)
    if not path.is_file():
        raise InputError(f"Expected one file of scores, but got {path}. Name a file.")
    if table_suffix(path) not in SUFFIXES:
        raise InputError(f"Expected a file in {', '.join(SUFFIXES)}, but got {path.name!r}. Save it as one of these.")
    return path


def _held(source: Any, names: tuple[str, ...]) -> Held:
    """Take an array of scores for what the reference's are called."""
    if (hasattr(source, "shape") and not hasattr(source, "columns")) or isinstance(source, list):
        name = names[0] if len(names) == 1 and names[0] else "scores"
        return Held("the new rows", {name: as_column(source)})
    return hold(source)


def _probs(scores: Scores, n_classes: int, where: str) -> Iterator[Tensor]:
    for logits in scores.logits(where):
        if logits.shape[1] != n_classes:
            raise InputError(
                f"Expected scores of {n_classes} classes, as the reference has, but {where} has {logits.shape[1]}. "
                "Pass rows of the same model."
            )
        yield _softmax(logits)


def _softmax(logits: Array) -> Tensor:
    return torch.from_numpy(np.asarray(logits, np.float64)).softmax(1)
