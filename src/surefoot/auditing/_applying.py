"""What is written beside what was read: labels or none, classes in one order, and how a table is laid out again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from surefoot.auditing.audit import choose_one
from surefoot.errors import InputError
from surefoot.sources.files import open_predictions
from surefoot.sources.names import Kind
from surefoot.sources.paths import find_files
from surefoot.sources.readers import TABLES, read_table, table_suffix
from surefoot.sources.scores import FittedTo, has_labels
from surefoot.sources.source import Source
from surefoot.sources.told import Told
from surefoot.sources.writers import Layout


def whole(path: Path) -> Path:
    """Refuse several files of arrays, of which none names rows that others go on with; tables are read as one."""
    found = find_files(path)
    if len(found.paths) > 1 and found.suffix not in TABLES:
        raise InputError(
            f"Expected one file, or tables that are read as one, but got {found.name} of {found.suffix}. Take each by "
            "itself."
        )
    return path if len(found.paths) > 1 else found.paths[0]


def open_labelled(path: Path, model: str | None, told: Told) -> Source | None:
    """Open a file that has labels; None for one that has not."""
    if told.get("labels") is None:
        if path.suffix == ".npy":
            try:
                return choose_one(open_predictions(path, **told), model, path.name)[0]
            except InputError:  # no labels beside it, or those of other rows
                return None
        if (path.suffix == ".npz" or table_suffix(path) in TABLES) and not has_labels(path):
            return None
    return choose_one(open_predictions(path, **told), model, path.name)[0]


def check_classes(class_names: tuple[str, ...], to: FittedTo, where: str) -> None:
    """Refuse classes in another order, where names tell: each would get another one's repair."""
    if class_names and to.class_names and class_names != to.class_names and len(class_names) == len(to.class_names):
        raise InputError(
            f"Expected the classes {', '.join(to.class_names[:6])} in this order, {to.whose}, "
            f"but {where} has {', '.join(class_names[:6])}. Bring them into one order."
        )


def names_of(class_names: tuple[str, ...], n_classes: int) -> tuple[str, ...]:
    """Return the names of the classes, or their numbers."""
    return class_names or tuple(map(str, range(n_classes)))


def layout_of(path: Path, out: Path, columns: tuple[str, ...], kind: Kind | None, names: tuple[str, ...]) -> Layout:
    """Keep the layout of a table that becomes a table, unless it was in percent; else a column of shares per class."""
    plain = Layout(tuple(f"prob_{name}" for name in names), "probs")
    if table_suffix(path) not in TABLES or not columns or kind is None:
        return plain
    if len(columns) > 1:
        return Layout(columns, kind)
    if not _is_list(path, columns[0]):
        return Layout(columns, kind)
    return plain if table_suffix(out) in (".csv", ".tsv") else Layout(columns, kind, lists=True)


def _is_list(path: Path, column: str) -> bool:
    with closing(read_table(path)(1, (column,), ())) as reading:
        first, _ = next(reading)
    return np.ndim(first[column][0]) > 0


def left_out(out: Path, columns: tuple[str, ...], labels: str, layout: Layout) -> set[str]:
    """Leave out what is written anew: the labels too, where they become numbers in an array."""
    if out.suffix == ".npz":
        return {*columns, labels}
    return set() if layout.names == columns else set(columns)
