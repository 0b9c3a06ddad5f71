"""Open predictions that are no scores of classes: harness samples, batches, confidences, several labels per row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.errors import InputError
from surefoot.sources._confidence import find_columns, npz_batches, open_confidence
from surefoot.sources._multilabel import open_label_columns
from surefoot.sources._stored import arrays_in
from surefoot.sources._tables import columns_in
from surefoot.sources._tokens import ignoring
from surefoot.sources.batches import is_batches, open_batches
from surefoot.sources.harness import open_samples, sample_files
from surefoot.sources.memory import hold
from surefoot.sources.paths import find_files, is_path
from surefoot.sources.readers import TABLES, Batches, read_table
from surefoot.sources.source import Source
from surefoot.sources.told import Told
from surefoot.sources.weights import pick_weights


def open_form(source: Any, told: Told, where: str) -> list[Source]:
    """Open predictions of a form of their own.

    Args:
        source: A path, several that are read as one, columns in memory, or batches.
        told: What names and values do not tell.
        where: The source, for messages.

    Returns:
        One source; none where they are scores of classes.

    Raises:
        InputError: If the source is not of the form that was said, or of one that something said has no place in.
    """
    found = _form_source(source, told, where)
    if found and isinstance(told.get("weights"), str) and not found[0].weights:
        raise InputError(
            f"Expected no --weights with this form, but got {told.get('weights')!r} for {found[0].where}. Leave it out."
        )
    return found


def _form_source(source: Any, told: Told, where: str) -> list[Source]:
    groups = tuple(told.get("groups", ()))
    if isinstance(source, str | Path) and (samples := sample_files(source)):
        return [open_samples(source, samples, told.get("normalise"), told.get("labels_are"), groups)]
    if told.get("normalise"):
        raise InputError(
            f"Expected --normalise with samples of lm-evaluation-harness, but {where} has others. Omit it."
        )
    if is_batches(source):
        return [ignoring_for(open_batches(source, told.get("class_axis")), told)]
    found = _confidence(source, told, where) or _several(source, told, where)
    return [] if found is None else [found]


def ignoring_for(source: Source, told: Told) -> Source:
    """Leave out rows whose label does not count: as told, or of tokens and pixels those of −100.

    Args:
        source: The rows.
        told: What was said about them.

    Returns:
        The rows that count.

    Raises:
        InputError: If an axis was named where there are no more than two.
    """
    if told.get("class_axis") is not None and not source.tokens:
        raise InputError(
            f"Expected --class-axis with scores of more than two axes, but {source.where} has no others. Leave it out."
        )
    return ignoring(source, told.get("ignore_index"), tokens=source.tokens)


def _confidence(source: Any, told: Told, where: str) -> Source | None:
    """Open a confidence beside whether it was right, where names or somebody says that this is it."""
    form = told.get("form")
    if form not in (None, "confidence") or (form is None and not is_path(source) and hold(source).form != "multiclass"):
        return None
    if is_path(source) and (files := find_files(source)).suffix == ".npz" and len(files.paths) == 1:
        batches: Batches | None = npz_batches(files.paths[0])
        shapes = {name: shape for name, (shape, _) in arrays_in(files.paths[0]).items()}
        names, lists = list(shapes), [name for name, shape in shapes.items() if len(shape) > 1]
    elif (batches := _table(source, told)) is not None:
        names, lists = columns_in(batches)
    if batches is None:
        if form is not None:
            raise InputError(f"Expected a table or an .npz with --form confidence, but got {where}. Save one.")
        return None
    groups, scores = tuple(told.get("groups", ())), tuple(told.get("scores", ()))
    chosen = find_columns(names, lists, form is not None, scores, told.get("labels"))
    if chosen is None and form is not None:
        raise InputError(
            f"Expected columns such as confidence and correct, but {where} has {', '.join(names[:8])}. Say which with "
            "--scores and --labels."
        )
    if chosen is None:
        return None
    said = told.get("weights")
    wanted = (*chosen, *groups, *([said] if isinstance(said, str) else []))
    if missing := [name for name in wanted if name not in names]:
        raise InputError(f"Expected a column {missing[0]!r}, but {where} has {', '.join(names[:8])}. Check its name.")
    weight, notes = pick_weights(names, said, {*chosen, *groups}, "Column")
    found = open_confidence(where, batches, chosen, groups, told.get("kind"), notes, weight)
    if found.first() is None:
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    return found


def _several(source: Any, told: Told, where: str) -> Source | None:
    """Open a table with a column of scores per label, where several can be true; None for one of another kind."""
    form = told.get("form")
    if form not in (None, "multilabel") or (batches := _table(source, told)) is None:
        return None
    groups, scores = tuple(told.get("groups", ())), tuple(told.get("scores", ()))
    labels, weights = told.get("labels"), told.get("weights")
    return open_label_columns(where, batches, groups, labels, scores, form is not None, weights)


def _table(source: Any, told: Told) -> Batches | None:
    """Return what reads a table, in memory or in files; None where a source is none."""
    if not is_path(source):
        return hold(source).batches
    files = find_files(source)
    return read_table(files, told.get("header")) if files.suffix in TABLES else None
