"""Several files read as one: the same columns, one file after the other, never more than some rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surefoot.errors import InputError
from surefoot.places import size_of
from surefoot.sources.labels import Array
from surefoot.sources.paths import Files
from surefoot.sources.source import Raw, Source
from surefoot.sources.window import files_in_view

if TYPE_CHECKING:
    from surefoot.sources.readers import Batch, Batches

_MANY = 20  # labels; fewer may be the same by chance


def shares(paths: Sequence[Path]) -> Iterator[tuple[int, Path, Callable[[float | None], float]]]:
    """Go through files, each with its place and a function that makes of its own share that of all."""
    chosen = [(number, paths[number]) for number in files_in_view(paths)]
    sizes = {path: max(1, size_of(path)) for _, path in chosen}
    total, done = sum(sizes[path] for _, path in chosen), 0
    for number, path in chosen:
        before, size = done, sizes[path]
        yield number, path, lambda own, before=before, size=size: (before + size * (own or 0.0)) / total  # type: ignore[misc]  # mypy cannot tell defaults
        done += size


def join_tables(files: Files, starts: Mapping[Path, Batches]) -> Batches:
    """Read tables in several files as one.

    Args:
        files: All of them.
        starts: Starts reading each.

    Returns:
        A function that starts reading the first, and goes on with the next.

    Raises:
        InputError: If one has other columns than the first.
    """
    check_columns(files, lambda path: names_in(starts[path]))

    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        for _, path, share in shares(files.paths):
            with closing(starts[path](n, names, numbers)) as reading:
                for columns, own in reading:
                    yield columns, share(own)

    return batches


def names_in(batches: Batches) -> list[str]:
    """List the columns of a table; nothing where it has no rows."""
    with closing(batches(1, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    return list(first)


def check_columns(files: Files, names_of: Callable[[Path], Sequence[str]]) -> None:
    """Refuse files with other columns than the first.

    Args:
        files: All of them.
        names_of: Reads what the columns of one are called; nothing where it has no rows.

    Raises:
        InputError: If one has other columns.
    """
    distinct = list(dict.fromkeys(files.paths))
    wanted: Sequence[str] = ()
    first = distinct[0]
    for path in distinct:
        names = names_of(path)
        if not wanted:
            wanted, first = names, path
        elif names and set(names) != set(wanted):
            missing = [name for name in wanted if name not in names]
            other = [name for name in names if name not in wanted]
            differs = f"lacks {_few(missing)}" if missing else f"also has {_few(other)}"
            raise InputError(
                f"Expected the columns of {first.name} in every file, but {path.name} {differs} in {files.name}. Bring "
                "them into one form, or name one file; several models are several arguments."
            )


def join_sources(files: Files, open_one: Callable[[Path], list[Source]]) -> list[Source]:
    """Read arrays in several files as one set of predictions.

    Args:
        files: All of them.
        open_one: Lists what one holds.

    Returns:
        One source per model and split, each of all files.

    Raises:
        InputError: If the files do not hold the same arrays.
    """
    found = {path: open_one(path) for path in dict.fromkeys(files.paths)}
    first = found[files.paths[0]]
    for path, sources in found.items():
        if [_kept(each) for each in sources] != [_kept(each) for each in first]:
            told = "; ".join(each.took for each in sources)
            raise InputError(
                f"Expected the arrays and classes of {files.paths[0].name} in every file, but {path.name} holds {told} "
                f"in {files.name}. Bring them into one form, or name one file; several models are several arguments."
            )
    return [_joined(files, [found[path][i] for path in files.paths]) for i in range(len(first))]


def same_labels(files: Files, open_one: Callable[[Path], list[Source]]) -> str:
    """Say that two files begin with the same labels, as several models' predictions for the same examples do.

    Args:
        files: All of them; the first two are looked at.
        open_one: Lists what one holds.

    Returns:
        A note; empty where labels differ, or are too few or too plain to tell.
    """
    paths = list(dict.fromkeys(files.paths))[:2]
    if len(paths) < 2:
        return ""
    try:
        firsts = [open_one(path)[0].first() for path in paths]
    except InputError:  # one alone need not tell what it holds
        return ""
    labels = [first.labels[:1000] for first in firsts if first is not None]
    if (
        len(labels) < 2
        or len(labels[0]) < _MANY
        or len(set(map(str, labels[0].tolist()))) < 2  # whatever they are: that is looked at later
        or not np.array_equal(labels[0], labels[1])
    ):
        return ""
    return (
        f"{paths[0].name} and {paths[1].name} begin with the same labels. If they are predictions of two models for "
        "the same examples, name them as two arguments; here they are read as one."
    )


def _kept(source: Source) -> tuple[object, ...]:
    return source.model, source.split, source.columns, source.kind, source.class_names, source.meaning, source.weights


def _joined(files: Files, sources: Sequence[Source]) -> Source:
    def start() -> Generator[Raw]:
        for number, _, share in shares(files.paths):
            with closing(sources[number].start()) as reading:
                for raw in reading:
                    yield replace(raw, share=share(raw.share))

    def start_labels() -> Generator[Array]:
        for number in files_in_view(files.paths):
            with closing(sources[number].start_labels()) as reading:
                yield from reading

    return replace(sources[0], where=files.name, start=start, start_labels=start_labels, start_groups=None)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:4])) + (", …" if len(names) > 4 else "")
