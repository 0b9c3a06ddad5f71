"""``.npz`` and ``.npy``: arrays read row by row out of the file, compressed or not."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from surefoot.audit._names import Pick, pick_arrays
from surefoot.audit._source import Array, Chunk, Source, clean, rows_per_chunk
from surefoot.errors import InputError


class Rows:
    """A stored array whose rows are read one after the other.

    Args:
        file: Positioned at the start of the ``.npy`` data.
        where: Its name, for messages.
    """

    def __init__(self, file: IO[bytes], where: str) -> None:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            self.shape, fortran, self.dtype = read(file)
        except ValueError as error:
            raise InputError(
                f"Expected a NumPy array, but {where} is none ({error}). Save it with np.savez."
            ) from error
        if self.dtype.hasobject:
            raise InputError(f"Expected plain arrays, but {where} holds pickled objects. Save numbers with np.savez.")
        self._file, self._where = file, where
        self._whole: Array | None = None
        self._done = 0
        if fortran and len(self.shape) > 1:  # stored column by column: no row is complete before the end
            flat = np.frombuffer(self._read(int(np.prod(self.shape))), self.dtype)
            self._whole = flat.reshape(self.shape, order="F")

    def take(self, n: int) -> Array:
        """Read the next n rows."""
        start, self._done = self._done, self._done + n
        if self._whole is not None:
            return self._whole[start : start + n]
        shape = (n, *self.shape[1:])
        return np.frombuffer(self._read(int(np.prod(shape))), self.dtype).reshape(shape)

    def _read(self, count: int) -> bytes:
        wanted = count * self.dtype.itemsize
        try:
            data = self._file.read(wanted)
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise InputError(
                f"Expected a whole file, but {self._where} is damaged ({error}). Copy it again."
            ) from error
        if len(data) < wanted:
            raise InputError(f"Expected a whole file, but {self._where} is cut off. Copy it again.")
        return data


def open_npz(path: Path, group_names: tuple[str, ...]) -> list[Source]:
    """List the predictions in an ``.npz`` file.

    Args:
        path: The file.
        group_names: Arrays that divide the rows into slices.

    Returns:
        One source per set of scores that has labels.

    Raises:
        InputError: If the file cannot be read or has no such set.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            keys = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except zipfile.BadZipFile as error:
        raise InputError(f"Expected an .npz file, but {path} is damaged or none ({error}). Copy it again.") from error
    if missing := [name for name in group_names if name not in keys]:
        raise InputError(f"Expected a group array {missing[0]!r}, but {path.name} holds {', '.join(keys)}.")
    picks, class_keys = pick_arrays(keys)
    if not picks:
        raise InputError(
            f"Expected arrays logits or probs, and labels, but {path.name} holds {', '.join(keys) or 'nothing'}. "
            "Rename them, or save np.savez(file, logits=…, labels=…)."
        )
    names = _class_names(path, class_keys)
    return [_source(path, pick, names, group_names) for pick in picks]


def _source(path: Path, pick: Pick, class_names: tuple[str, ...], group_names: tuple[str, ...]) -> Source:
    (key,) = pick.scores

    def chunks() -> Iterator[Chunk]:
        with zipfile.ZipFile(path) as archive:
            columns = {
                name: Rows(archive.open(f"{name}.npy"), f"{path.name}:{name}")
                for name in (key, pick.labels, *group_names)
            }
            yield from _chunks(columns, key, pick.labels, class_names, path.name)

    return Source(
        pick.of, f"{key!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels", pick.kind, class_names, chunks
    )


def _chunks(
    columns: dict[str, Rows], key: str, labels: str, class_names: tuple[str, ...], where: str
) -> Iterator[Chunk]:
    scores = columns[key]
    lengths = {name: rows.shape[0] if rows.shape else 0 for name, rows in columns.items()}
    if len(scores.shape) != 2 or len(columns[labels].shape) != 1 or len(set(lengths.values())) > 1:
        shapes = ", ".join(f"{name} {rows.shape}" for name, rows in columns.items())
        raise InputError(f"Expected scores (n, classes) and as many labels, but got {shapes} in {where}.")
    n, n_classes = scores.shape
    step = rows_per_chunk(n_classes)
    for start in range(0, n, step):
        size = min(step, n - start)
        taken = {name: rows.take(size) for name, rows in columns.items()}
        values, numbers = clean(taken[key], taken[labels], start, class_names, where)
        groups = {name: taken[name] for name in columns if name not in (key, labels)}
        yield Chunk(values, numbers, groups)


def _class_names(path: Path, keys: list[str]) -> tuple[str, ...]:
    if not keys:
        return ()
    with zipfile.ZipFile(path) as archive:
        rows = Rows(archive.open(f"{keys[0]}.npy"), f"{path.name}:{keys[0]}")
        return tuple(str(name) for name in rows.take(rows.shape[0]).ravel())


def open_npy(path: Path, labels: Path | None) -> list[Source]:
    """Read a pair of ``.npy`` files: scores, and labels beside them.

    Args:
        path: The scores.
        labels: The labels; else a file beside the scores that is called so.

    Returns:
        One source.

    Raises:
        InputError: If the labels cannot be found.
    """
    beside = labels or _beside(path)
    if beside is None or not beside.is_file():
        raise InputError(f"Expected labels beside {path.name}, but found none. Pass --labels FILE.npy.")
    picks, _ = pick_arrays([path.stem, "labels"])
    kind = picks[0].kind if picks else None

    def chunks() -> Iterator[Chunk]:
        with path.open("rb") as first, beside.open("rb") as second:
            columns = {"scores": Rows(first, path.name), "labels": Rows(second, beside.name)}
            yield from _chunks(columns, "scores", "labels", (), path.name)

    return [Source("", f"{path.name} as {kind or 'scores'}, {beside.name} as labels", kind, (), chunks)]


def _beside(path: Path) -> Path | None:
    mine: Any = pick_arrays([path.stem, "labels"])[0]
    of = mine[0].of if mine else ""
    for other in sorted(path.parent.glob("*.npy")):
        if other != path:
            theirs = pick_arrays(["logits", other.stem])[0]
            if (
                theirs
                and theirs[0].labels == other.stem
                and (not of or of in other.stem.lower() or other.stem.lower() in ("labels", "y", "targets"))
            ):
                return other
    return None
