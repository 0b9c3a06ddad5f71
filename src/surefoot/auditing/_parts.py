"""Several files read as one: the same columns, one file after the other, never more than some rows in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from surefoot.auditing._labels import Array
from surefoot.auditing._paths import Files
from surefoot.auditing._source import Raw, Source
from surefoot.errors import InputError

T = TypeVar("T")


def shares(paths: Sequence[Path]) -> Iterator[tuple[Path, Callable[[float | None], float]]]:
    """Go through files, each with a function that makes of its own share that of all."""
    sizes = {path: max(1, os.path.getsize(path)) for path in set(paths)}
    total, done = sum(sizes[path] for path in paths), 0
    for path in paths:
        before, size = done, sizes[path]
        yield path, lambda own, before=before, size=size: (before + size * (own or 0.0)) / total  # type: ignore[misc]  # mypy cannot tell defaults
        done += size


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


def _kept(source: Source) -> tuple[object, ...]:
    return source.model, source.split, source.columns, source.kind, source.class_names, source.meaning, source.weights


def _joined(files: Files, sources: Sequence[Source]) -> Source:
    def start() -> Generator[Raw]:
        for source, (_, share) in zip(sources, shares(files.paths), strict=True):
            with closing(source.start()) as reading:
                for raw in reading:
                    yield replace(raw, share=share(raw.share))

    def start_labels() -> Generator[Array]:
        for source in sources:
            with closing(source.start_labels()) as reading:
                yield from reading

    return replace(sources[0], where=files.name, start=start, start_labels=start_labels)


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:4])) + (", …" if len(names) > 4 else "")
