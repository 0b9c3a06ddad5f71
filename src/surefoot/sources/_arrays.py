"""``.npz`` and ``.npy``: arrays read row by row out of the file, compressed or not."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from surefoot.errors import InputError
from surefoot.places import place, unzipped
from surefoot.schema import LABELS_ARE
from surefoot.sources._beside import LabelRows, Labels, labels_file, open_labels
from surefoot.sources._cells import texts
from surefoot.sources._stored import StoredArray, arrays_in
from surefoot.sources._tokens import flat_rows
from surefoot.sources.groups import group_columns
from surefoot.sources.labels import Array, check_meaning
from surefoot.sources.names import Pick, pick_arrays, picked_by_hand, take_apart
from surefoot.sources.source import Raw, Source, rows_per_chunk
from surefoot.sources.weights import as_weights, pick_weights
from surefoot.sources.window import rows_in_view


def open_npz(
    path: Path,
    group_names: tuple[str, ...],
    label: str | None,
    scores: tuple[str, ...] = (),
    class_axis: int | None = None,
    *,
    weights: str | bool | None = None,
) -> list[Source]:
    """List the predictions in an ``.npz`` file.

    Args:
        path: The file.
        group_names: Arrays that divide the rows into slices.
        label: The array of labels, where its name does not tell; or their file.
        scores: The array of scores, where its name does not tell.
        class_axis: Of scores with more than two axes that of the classes, where shapes do not tell.
        weights: The array that says how much a row counts, where its name does not tell; False for none.

    Returns:
        One source per set of scores that has labels.

    Raises:
        InputError: If the file cannot be read or has no such set.
    """
    shapes = arrays_in(path)
    group_names = group_columns(group_names, shapes)
    beside = labels_file(label, list(shapes))
    label = beside.name if beside else label
    for name in (*group_names, *([label] if label else []), *scores, *([weights] if isinstance(weights, str) else [])):
        if name not in shapes and not (beside and name == label):
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
    used = {*group_names, *(name for pick in picks for name in (*pick.scores, pick.labels))}
    found = []
    for pick in picks:
        flat = [key for key, (shape, _) in shapes.items() if shape == shapes[pick.scores[0]][0][:1]]
        weight, notes = pick_weights(flat, weights, used, "Array", pick.split)
        each = _npz_source(path, pick, names, group_names, weight, open_labels(beside) if beside else None, class_axis)
        found.append(replace(each, notes=notes, tokens=len(shapes[pick.scores[0]][0]) > 2))
    return [replace(each, meaning=meaning, settled=meaning is not None) for each in found]


def _may_be_what_it_says(key: str, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    """Leave out what has the name of scores but cannot be any: predicted classes, single numbers."""
    found = take_apart(key)
    if found is None or found.role in ("labels", "classes"):
        return bool(shape)
    return len(shape) >= 2 or (len(shape) == 1 and dtype.kind in "fO")


def _npz_source(
    path: Path,
    pick: Pick,
    class_names: tuple[str, ...],
    group_names: tuple[str, ...],
    weight: str | None = None,
    beside: Labels | None = None,
    class_axis: int | None = None,
) -> Source:
    (key,) = pick.scores
    n_labels = 0 if beside is None else sum(map(len, beside()))

    def start() -> Generator[Raw]:
        with unzipped(path) as archive, ExitStack() as files:
            columns: dict[str, StoredArray | LabelRows] = {}
            if beside is not None:
                columns[pick.labels] = files.enter_context(closing(LabelRows(beside, n_labels)))
            for name in dict.fromkeys((key, pick.labels, *group_names, *([weight] if weight else []))):
                if name in columns:
                    continue
                file = files.enter_context(archive.open(f"{name}.npy"))
                columns[name] = StoredArray(file, f"{path.name}:{name}")
            yield from _raws(columns, key, pick.labels, group_names, path.name, weight, class_axis)

    def start_labels() -> Generator[Array]:
        if beside is not None:
            yield from beside()
            return
        with unzipped(path) as archive, archive.open(f"{pick.labels}.npy") as file:
            yield from _labels(StoredArray(file, f"{path.name}:{pick.labels}"))

    def start_groups() -> Generator[Mapping[str, Array]]:
        with unzipped(path) as archive, ExitStack() as files:
            opened = {name: files.enter_context(archive.open(f"{name}.npy")) for name in group_names}
            rows = {name: StoredArray(file, f"{path.name}:{name}") for name, file in opened.items()}
            for parts in zip(*map(_labels, rows.values()), strict=False):
                yield {name: texts(part) for name, part in zip(rows, parts, strict=True)}

    took = f"{key!r} as {pick.kind or 'scores'}, {pick.labels!r} as labels" + as_weights(weight)
    columns = ((key,), pick.labels)
    found = Source(pick.model, pick.split, took, pick.kind, class_names, path.name, columns, start, start_labels)
    return replace(found, weights=weight, start_groups=start_groups)


def _raws(
    columns: Mapping[str, StoredArray | LabelRows],
    key: str,
    labels: str,
    group_names: Sequence[str],
    where: str,
    weight: str | None = None,
    class_axis: int | None = None,
) -> Generator[Raw]:
    scores = columns[key]
    if len(scores.shape) > 2:
        truth = columns[labels]
        if not isinstance(scores, StoredArray) or not isinstance(truth, StoredArray) or weight is not None:
            raise InputError(
                f"Expected scores with more than two axes and their labels in one file, and no weights, but {where} "
                "has others. Save both in one .npz, and leave the weights out."
            )
        arrays = {name: array for name in group_names if isinstance(array := columns[name], StoredArray)}
        groups = {name: array.take(array.shape[0]) for name, array in arrays.items()}
        yield from flat_rows(scores, truth, groups, class_axis, where)
        return
    lengths = {rows.shape[0] if rows.shape else 0 for rows in columns.values()}
    if len(lengths) > 1:
        shapes = ", ".join(f"{name} {rows.shape}" for name, rows in columns.items())
        raise InputError(
            f"Expected scores (n, classes) and one label per row, but got {shapes} in {where}. Save arrays that belong "
            "together."
        )
    first, last = rows_in_view(scores.shape[0])
    if first:
        for rows in columns.values():
            rows.skip(first)
    n, n_classes = last - first, scores.shape[1] if len(scores.shape) == 2 else 2
    step = rows_per_chunk(n_classes)
    for start in range(0, n, step):
        size = min(step, n - start)
        taken = {name: rows.take(size) for name, rows in columns.items()}
        groups = {name: texts(taken[name]) for name in group_names}
        yield Raw(taken[key], taken[labels], groups, (start + size) / n, taken[weight] if weight else None)


def _labels(rows: StoredArray) -> Generator[Array]:
    (first, last), step = rows_in_view(rows.shape[0]), rows_per_chunk(1)
    if first:
        rows.skip(first)
    for start in range(first, last, step):
        yield rows.take(min(step, last - start))


def _texts(path: Path, key: str) -> tuple[str, ...]:
    """Read a short array of texts, such as the names of the classes."""
    with unzipped(path) as archive, archive.open(f"{key}.npy") as file:
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
    start_beside = open_labels(beside)
    is_array = beside.suffix == ".npy"
    n_labels = 0 if is_array else sum(map(len, start_beside()))
    picks, _ = pick_arrays([path.stem], "labels", path.name)
    kind = picks[0].kind if picks else None

    def start() -> Generator[Raw]:
        with path.open("rb") as first, beside.open("rb") as second, closing(LabelRows(start_beside, n_labels)) as rows:
            labels = StoredArray(second, beside.name) if is_array else rows
            yield from _raws(
                {"scores": StoredArray(first, path.name), "labels": labels},
                "scores",
                "labels",
                (),
                path.name,
                None,
                class_axis,
            )

    took = f"{path.name} as {kind or 'scores'}, {beside.name} as labels"
    columns = (("",), beside.name)
    with path.open("rb") as file:
        tokens = len(StoredArray(file, path.name).shape) > 2
    return [Source("", "", took, kind, (), path.name, columns, start, start_beside, tokens=tokens)]


def labels_beside(path: Path, label: str | None) -> Path | None:
    """Find the labels of the same model and split, else those that are for all.

    Args:
        path: The scores.
        label: The file, where it is known.

    Returns:
        The file with the labels; None if there is none.
    """
    if label:
        return place(label)
    mine = take_apart(path.stem)
    found = {}
    for other in sorted(path.parent.glob("*.npy")):
        theirs = take_apart(other.stem)
        if other != path and theirs is not None and theirs.role == "labels":
            found[theirs.model, theirs.split] = other
    wanted = [(mine.model, mine.split), ("", mine.split)] if mine else []
    chosen = next((found[key] for key in (*wanted, ("", "")) if key in found), None)
    return chosen or (next(iter(found.values())) if len(found) == 1 and not (mine and mine.split) else None)
