"""``.npz`` and ``.npy``: arrays read row by row out of the file, compressed or not."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from surefoot.auditing._cells import texts
from surefoot.auditing._labels import Array, check_meaning
from surefoot.auditing._names import Pick, is_weight, notes_on_weights, pick_arrays, picked_by_hand, take_apart
from surefoot.auditing._source import Raw, Source, rows_per_chunk
from surefoot.auditing._tokens import flat_rows
from surefoot.errors import InputError
from surefoot.schema import LABELS_ARE


class StoredArray:
    """A stored array whose rows are read one after the other.

    Args:
        file: Positioned at the start of the ``.npy`` data.
        where: Its name, for messages.
    """

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file, self._where = file, where
        self.shape, self._fortran, self.dtype = self._header()
        self._whole: Array | None = None
        self._done = 0

    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
        try:
            version = np.lib.format.read_magic(self._file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            header: tuple[tuple[int, ...], bool, np.dtype[np.generic]] = read(self._file)
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(
                f"Expected a NumPy array, but {self._where} is none ({_one_line(error)}). Save it with np.savez."
            ) from error
        return header

    def take(self, n: int) -> Array:
        """Read the next n rows."""
        if self.dtype.hasobject:
            raise InputError(
                f"Expected plain arrays, but {self._where} holds pickled objects, which could run code. "
                "Save numbers or texts: np.asarray(list(values))."
            )
        start, self._done = self._done, self._done + n
        if not self._fortran or len(self.shape) < 2:
            return self._read((n, *self.shape[1:]) if self.shape else ())
        if self._whole is None:  # stored column by column: no row is complete before the end
            self._whole = self._read(self.shape[::-1]).T
        return self._whole[start : start + n]

    def take_flat(self, n: int) -> Array:
        """Read the next n values, whatever the axes; all rows are taken this way, or none."""
        if self.dtype.hasobject or not self.shape:
            return self.take(n).reshape(-1)
        start, self._done = self._done, self._done + n
        if not self._fortran:
            return self._read((n,))
        if self._whole is None:
            self._whole = self._read(self.shape[::-1]).T.reshape(-1)
        return self._whole[start : start + n]

    def _read(self, shape: tuple[int, ...]) -> Array:
        """Read straight into an array, so that no second copy is in memory."""
        values = np.empty(shape, self.dtype)
        if not values.nbytes:
            return values
        room, done = values.reshape(-1).view(np.uint8).data, 0
        try:
            while done < len(room):
                got = self._file.readinto(room[done : done + (1 << 22)])  # type: ignore[attr-defined]  # IO does not declare it
                if not got:
                    raise InputError(f"Expected a whole file, but {self._where} is cut off. Copy it again.")
                done += got
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InputError(
                f"Expected a whole file, but {self._where} is damaged ({_one_line(error)}). Copy it again."
            ) from error
        return values.astype(self.dtype.newbyteorder("="), copy=False)


def _one_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__


def open_npz(
    path: Path,
    group_names: tuple[str, ...],
    label: str | None,
    scores: tuple[str, ...] = (),
    class_axis: int | None = None,
) -> list[Source]:
    """List the predictions in an ``.npz`` file.

    Args:
        path: The file.
        group_names: Arrays that divide the rows into slices.
        label: The array of labels, where its name does not tell.
        scores: The array of scores, where its name does not tell.
        class_axis: Of scores with more than two axes that of the classes, where shapes do not tell.

    Returns:
        One source per set of scores that has labels.

    Raises:
        InputError: If the file cannot be read or has no such set.
    """
    shapes = arrays_in(path)
    for name in (*group_names, *([label] if label else []), *scores):
        if name not in shapes:
            raise InputError(
                f"Expected an array {name!r}, but {path.name} holds {', '.join(shapes) or 'nothing'}. Check its name."
            )
    if len(scores) > 1:
        raise InputError(f"Expected one array of scores in {path.name}, but got {len(scores)}. Say --scores once.")
    usable = [key for key, (shape, dtype) in shapes.items() if _may_be_what_it_says(key, shape, dtype)]
    picks, class_key = pick_arrays(usable, label, path.name)
    if scores:
        picks = picked_by_hand(scores[0], usable, label, path.name)
    if not picks:
        raise InputError(
            f"Expected arrays logits or probs, and labels, but {path.name} holds {', '.join(shapes) or 'nothing'}. "
            "Rename them, or save np.savez(file, logits=…, labels=…)."
        )
    names = _texts(path, class_key) if class_key else ()
    recorded = _texts(path, LABELS_ARE) if LABELS_ARE in shapes else ()
    meaning = check_meaning(recorded[0], f"{LABELS_ARE} in {path.name}") if len(recorded) == 1 else None
    found = [_npz_source(path, pick, names, group_names, class_axis) for pick in picks]
    found = [replace(each, tokens=len(shapes[each.columns[0][0]][0]) > 2) for each in found]
    weights = [key for key, (shape, _) in shapes.items() if is_weight(key) and len(shape) == 1]
    notes = notes_on_weights(weights, group_names, "Array")
    return [replace(each, meaning=meaning, settled=meaning is not None, notes=notes) for each in found]


def arrays_in(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """Say what arrays there are, without reading them."""
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as file:
                        rows = StoredArray(file, f"{path.name}:{name.removesuffix('.npy')}")
                        shapes[name.removesuffix(".npy")] = rows.shape, rows.dtype
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as error:
        raise InputError(
            f"Expected an .npz file, but {path.name} is cut off, damaged or none ({_one_line(error)}). Copy it again."
        ) from error
    return shapes


def _may_be_what_it_says(key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    """Leave out what has the name of scores but cannot be any: predicted classes, single numbers."""
    found = take_apart(key)
    if found is None or found.role in ("labels", "classes"):
        return bool(shape)
    return len(shape) >= 2 or (len(shape) == 1 and dtype.kind in "fO")


def _npz_source(
    path: Path, pick: Pick, class_names: tuple[str, ...], group_names: tuple[str, ...], class_axis: int | None
) -> Source:
    (key,) = pick.scores

    def start() -> Generator[Raw]:
        with zipfile.ZipFile(path) as archive, ExitStack() as files:
            columns = {}
            for name in dict.fromkeys((key, pick.labels, *group_names)):
                file = files.enter_context(archive.open(f"{name}.npy"))
                columns[name] = StoredArray(file, f"{path.name}:{name}")
            yield from _raws(columns, key, pick.labels, group_names, path.name, class_axis)

    def start_labels() -> Generator[Array]:
        with zipfile.ZipFile(path) as archive, archive.open(f"{pick.labels}.npy") as file:
            yield from _labels(StoredArray(file, f"{path.name}:{pick.labels}"))

    took = f"{key!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels"
    columns = ((key,), pick.labels)
    return Source(pick.model, pick.split, took, pick.kind, class_names, path.name, columns, start, start_labels)


def _raws(
    columns: Mapping[str, StoredArray],
    key: str,
    labels: str,
    group_names: Sequence[str],
    where: str,
    class_axis: int | None,
) -> Generator[Raw]:
    scores = columns[key]
    if len(scores.shape) > 2:
        groups = {name: columns[name].take(columns[name].shape[0]) for name in group_names}
        yield from flat_rows(scores, columns[labels], groups, class_axis, where)
        return
    lengths = {rows.shape[0] if rows.shape else 0 for rows in columns.values()}
    if len(lengths) > 1:
        shapes = ", ".join(f"{name} {rows.shape}" for name, rows in columns.items())
        raise InputError(
            f"Expected scores (n, classes) and one label per row, but got {shapes} in {where}. Save arrays that belong "
            "together."
        )
    n, n_classes = scores.shape[0], scores.shape[1] if len(scores.shape) == 2 else 2
    step = rows_per_chunk(n_classes)
    for start in range(0, n, step):
        size = min(step, n - start)
        taken = {name: rows.take(size) for name, rows in columns.items()}
        groups = {name: texts(taken[name]) for name in group_names}
        yield Raw(taken[key], taken[labels], groups, (start + size) / n)


def _labels(rows: StoredArray) -> Generator[Array]:
    n, step = rows.shape[0], rows_per_chunk(1)
    for start in range(0, n, step):
        yield rows.take(min(step, n - start))


def _texts(path: Path, key: str) -> tuple[str, ...]:
    """Read a short array of texts, such as the names of the classes."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
        rows = StoredArray(file, f"{path.name}:{key}")
        values = rows.take(rows.shape[0] if rows.shape else 1).ravel()
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    return tuple(str(name) for name in values)


def open_npy(path: Path, label: str | None, class_axis: int | None = None) -> list[Source]:
    """Read a pair of ``.npy`` files: scores, and labels beside them.

    Args:
        path: The scores.
        label: The file with the labels; else one beside the scores that is called so.
        class_axis: Of scores with more than two axes that of the classes, where shapes do not tell.

    Returns:
        One source.

    Raises:
        InputError: If the labels cannot be found.
    """
    beside = labels_beside(path, label)
    if beside is None or not beside.is_file():
        found = f"{beside} does not exist" if beside else "found none"
        raise InputError(f"Expected labels beside {path.name}, but {found}. Pass --labels FILE.npy.")
    picks, _ = pick_arrays([path.stem], "labels", path.name)
    kind = picks[0].kind if picks else None

    def start() -> Generator[Raw]:
        with path.open("rb") as first, beside.open("rb") as second:
            columns = {"scores": StoredArray(first, path.name), "labels": StoredArray(second, beside.name)}
            yield from _raws(columns, "scores", "labels", (), path.name, class_axis)

    def start_labels() -> Generator[Array]:
        with beside.open("rb") as file:
            yield from _labels(StoredArray(file, beside.name))

    took = f"{path.name} as {kind or 'scores'}, {beside.name} as labels"
    columns = (("",), beside.name)
    with path.open("rb") as file:
        tokens = len(StoredArray(file, path.name).shape) > 2
    return [Source("", "", took, kind, (), path.name, columns, start, start_labels, tokens=tokens)]


def labels_beside(path: Path, label: str | None) -> Path | None:
    """Find the labels of the same model and split, else those that are for all.

    Args:
        path: The scores.
        label: The file, where it is known.

    Returns:
        The file with the labels; None if there is none.
    """
    if label:
        return Path(label)
    mine = take_apart(path.stem)
    found = {}
    for other in sorted(path.parent.glob("*.npy")):
        theirs = take_apart(other.stem)
        if other != path and theirs is not None and theirs.role == "labels":
            found[theirs.model, theirs.split] = other
    wanted = [(mine.model, mine.split), ("", mine.split)] if mine else []
    chosen = next((found[key] for key in (*wanted, ("", "")) if key in found), None)
    return chosen or (next(iter(found.values())) if len(found) == 1 and not (mine and mine.split) else None)
