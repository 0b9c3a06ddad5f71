"""Open a file of predictions, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from surefoot.audit._arrays import open_npy, open_npz
from surefoot.audit._names import Kind
from surefoot.audit._readers import TABLES, table_suffix
from surefoot.audit._source import Source, tell_kind
from surefoot.audit._tables import open_table
from surefoot.errors import InputError

SUFFIXES = (".npz", ".npy", *TABLES)


def open_predictions(
    path: Path | str,
    *,
    kind: Kind | None = None,
    labels: str | None = None,
    groups: Sequence[str] = (),
) -> list[Source]:
    """List the predictions in a file, without reading more than its beginning.

    Args:
        path: ``.npz``, ``.npy``, ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` or ``.parquet``.
        kind: What the scores are, where names and values do not tell or tell wrongly.
        labels: The labels' array or column, for ``.npy`` their file, where names do not tell.
        groups: Arrays or columns that divide the rows into slices.

    Returns:
        One source per model or split in the file, each of a known kind.

    Raises:
        InputError: If the file is missing, cannot be read or does not tell what it holds.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise InputError(f"Expected a file of predictions, but {path} is a folder. Name a file in it.")
    if not path.is_file():
        raise InputError(f"Expected a file of predictions, but {path} does not exist. Check the path.")
    suffix = table_suffix(path)
    if suffix not in SUFFIXES:
        raise InputError(f"Expected a file in {', '.join(SUFFIXES)}, but got {path.name!r}. Save it as one of these.")
    if suffix == ".npz":
        found = open_npz(path, tuple(groups), labels)
    elif suffix == ".npy":
        if groups:
            raise InputError("Expected --group with a file that names its columns, but .npy does not. Save an .npz.")
        found = open_npy(path, labels)
    else:
        found = open_table(path, tuple(groups), labels)
    return [_of_known_kind(source, kind, path.name) for source in found]


def _of_known_kind(source: Source, kind: Kind | None, where: str) -> Source:
    """Settle what the scores are: as told, by name, or by the values of the first rows."""
    first = replace(source, kind=kind or source.kind).first()
    if first is None:
        raise InputError(f"Expected at least one row, but {where} has none. Check the file.")
    names = source.class_names
    if names and len(names) != first.scores.shape[1]:
        raise InputError(
            f"Expected {first.scores.shape[1]} class names, one per column of scores, but got {len(names)} in {where}."
        )
    told, how = (kind, "as you said") if kind else tell_kind(first.scores, source.kind, where)
    return replace(source, kind=told, took=f"{source.took} ({told}, {how})")
