"""Scores without labels, as production has them: found by what the calibrator was fitted on, or by their names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.logs import finite_logs
from surefoot.places import unzipped
from surefoot.sources._cells import floats
from surefoot.sources._stored import StoredArray, arrays_in
from surefoot.sources._values import from_percent
from surefoot.sources.kind import tell_kind
from surefoot.sources.labels import Array
from surefoot.sources.memory import Held
from surefoot.sources.names import Kind, take_apart
from surefoot.sources.readers import read_table
from surefoot.sources.source import SUM_TOLERANCE, rows_per_chunk
from surefoot.sources.told import Said

_RANK = {"logits": 0, "probs": 1, "scores": 2}
_PREFIXES = ("logit_", "logits_", "log_prob_", "prob_", "probs_", "proba_", "p_", "p", "logit", "prob")


@dataclass(frozen=True)
class FittedTo:
    """What a calibrator or a prediction set was fitted to, as far as its file says."""

    n_classes: int | None
    class_names: tuple[str, ...]
    scores: tuple[str, ...]
    kind: Kind | None
    whose: str = "that the calibrator was fitted on"
    """Whose scores these are, for messages."""

    @staticmethod
    def of(values: Any, whose: str = "that the calibrator was fitted on") -> FittedTo:
        """Read it back; files of older versions say nothing."""
        found = values if isinstance(values, Mapping) else {}
        kind, n_classes = found.get("kind"), found.get("n_classes")
        names, scores = (found.get(key) for key in ("class_names", "scores"))
        return FittedTo(
            n_classes if isinstance(n_classes, int) and n_classes > 0 else None,
            tuple(map(str, names if isinstance(names, list | tuple) else ())),
            tuple(map(str, scores if isinstance(scores, list | tuple) else ())),
            kind if kind in ("logits", "probs") else None,
            whose,
        )


@dataclass(frozen=True)
class Scores:
    """Rows of scores in a file.

    Attributes:
        columns: What the columns or the array are called.
        kind: Logits or probabilities.
        took: What was taken for what, for people.
        start: Starts reading from the first row, some at a time, as they are in the file.
        percent: Whether they are probabilities in percent.
    """

    columns: tuple[str, ...]
    kind: Kind
    took: str
    start: Callable[[], Iterator[Array]]
    percent: bool = False

    def logits(self, where: str) -> Iterator[Array]:
        """Read all rows as logits in float64, shape ``(n, classes)``."""
        row = 0
        for raw in self.start():
            yield _as_logits(from_percent(raw.astype(np.float64)) if self.percent else raw, self.kind, row, where)
            row += len(raw)


def has_labels(path: Path) -> bool:
    """Return whether a file with named arrays or columns has one that is called like labels.

    Args:
        path: Anything but ``.npy``.

    Returns:
        Whether it has.
    """
    names = _arrays(path) if path.suffix == ".npz" else _first(path)
    return any(found.role == "labels" for found in map(take_apart, names) if found)


def find_scores(
    path: Path, fitted: FittedTo, kind: Said | None, model: str | None, named: tuple[str, ...] = ()
) -> Scores:
    """Find the scores in a file without labels.

    Args:
        path: The file.
        fitted: What the calibrator was fitted to: columns of the same names are taken first.
        kind: What the scores are, where names do not tell.
        model: Which one, where the file holds several.
        named: The scores' array or columns, where the user says so.

    Returns:
        The scores.

    Raises:
        InputError: If there are none, or several could be it.
    """
    start: Callable[[], Iterator[Array]] = partial(_npy_rows, path)
    if path.suffix == ".npy":
        named = (path.name,)
    elif path.suffix == ".npz":
        _check_named(named, _arrays(path), path)
        named = named or (_array_of(path, fitted, model),)
        start = partial(_npz_rows, path, named[0])
    else:
        first = _first(path)
        _check_named(named, first, path)
        named = named or _columns_of(path, first, fitted)
        start = partial(_table_rows, path, named)
    return _scores_of(path, named, fitted, kind, start)


def _scores_of(
    path: Path, named: tuple[str, ...], fitted: FittedTo, kind: Said | None, start: Callable[[], Iterator[Array]]
) -> Scores:
    """Settle what the scores are."""
    told = "probs" if kind == "percent" else kind or _kind(named, fitted)
    if told is None:
        raise InputError(f"Expected logits or probabilities, but cannot tell in {path.name}. Say --logits or --probs.")
    if kind is None:
        _check_kind(start, told, path)
    what = named[0] if len(named) == 1 else f"{named[0]}…{named[-1]}"
    return Scores(named, told, f"{what!r} as {kind or told}, no labels", start, percent=kind == "percent")


def _check_kind(start: Callable[[], Iterator[Array]], told: Kind, path: Path) -> None:
    """Refuse values that contradict what the scores were taken for."""
    first = next(iter(start()), None)
    if first is not None and first.size and first.dtype.kind in "fiu" and np.isfinite(first).all():
        tell_kind(first[:, 0] if first.ndim == 2 and first.shape[1] == 1 else first, told, path.name)


def find_held_scores(held: Held, fitted: FittedTo, kind: Said | None, named: tuple[str, ...] = ()) -> Scores:
    """Find the scores among columns in memory.

    Args:
        held: The columns.
        fitted: What others of the same model are called: columns of the same names are taken first.
        kind: What the scores are, where names do not tell.
        named: The scores' array or columns, where the user says so.

    Returns:
        The scores.

    Raises:
        InputError: If there are none, or several could be it.
    """
    where = Path(held.name)
    _check_named(named, held.columns, where)
    if not any(len(values) for values in held.columns.values()):
        raise InputError(f"Expected at least one row, but {held.name} has none. Pass some.")
    named = named or _columns_of(where, held.columns, fitted)

    def start() -> Iterator[Array]:
        for columns, _ in held.batches(rows_per_chunk(max(100, len(named))), named):
            values = [floats(columns[name], name, 0, held.name) for name in named]
            yield values[0] if len(values) == 1 else np.stack(values, axis=1)

    return _scores_of(where, named, fitted, kind, start)


def _check_named(named: tuple[str, ...], there: Collection[str], path: Path) -> None:
    missing = [name for name in named if name not in there]
    if missing:
        raise InputError(f"Expected {missing[0]!r} in {path.name}, but it holds {', '.join(there)}. Check --scores.")


def _kind(named: tuple[str, ...], fitted: FittedTo) -> Kind | None:
    if named == fitted.scores and fitted.kind is not None:
        return fitted.kind
    part = take_apart(Path(named[0]).stem if named[0].endswith(".npy") else named[0])
    if part is not None and part.role in ("logits", "probs"):
        return "logits" if part.role == "logits" else "probs"
    if named[0].lower().startswith(("logit", "log_prob")):
        return "logits"
    return "probs" if len(named) > 1 and named[0].lower().startswith("p") else fitted.kind


def _arrays(path: Path) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, (shape, _) in arrays_in(path).items()}


def _first(path: Path) -> dict[str, Sequence[Any] | Array]:
    with closing(read_table(path)(64, None, ())) as reading:
        first, _ = next(reading, ({}, None))
    if not any(len(values) for values in first.values()):
        raise InputError(f"Expected at least one row, but {path.name} has none. Check the file.")
    return dict(first)


def _array_of(path: Path, fitted: FittedTo, model: str | None) -> str:
    shapes = _arrays(path)
    if model is None and len(fitted.scores) == 1 and fitted.scores[0] in shapes:
        return fitted.scores[0]
    parts = [part for part in map(take_apart, shapes) if part and part.role in _RANK]
    parts = [part for part in parts if model is None or part.model == model.lower()]
    usable = [part for part in parts if len(shapes[part.key]) == 2 or (len(shapes[part.key]) == 1 and _two(fitted))]
    best = min((_RANK[part.role] for part in usable), default=0)
    found = [part.key for part in usable if _RANK[part.role] == best]
    if len(found) != 1:
        seen = ", ".join(found or shapes) or "nothing"
        raise InputError(
            f"Expected one array of scores such as logits or probs, but {path.name} holds {seen}. Keep or name one."
        )
    return found[0]


def _two(fitted: FittedTo) -> bool:
    return fitted.n_classes in (2, None)


def _columns_of(path: Path, first: Mapping[str, Sequence[Any] | Array], fitted: FittedTo) -> tuple[str, ...]:
    if fitted.scores and all(name in first for name in fitted.scores):
        _check_no_more(path, first, fitted.scores)
        return fitted.scores
    parts = [part for part in map(take_apart, first) if part and part.role in _RANK]
    lists = [part for part in parts if np.ndim(first[part.key][0]) == 1]
    if lists:
        return (min(lists, key=lambda part: _RANK[part.role]).key,)
    numbers = tuple(map(str, range(fitted.n_classes or 0)))
    if tuple(first) == numbers or (tuple(first) == ("0",) and _two(fitted)):  # columns without names
        return tuple(first)
    for names in filter(None, (fitted.class_names, numbers)):
        for prefix in ("", *_PREFIXES):
            if all(f"{prefix}{name}" in first for name in names) and (prefix or names is not numbers):
                return tuple(f"{prefix}{name}" for name in names)
    single = [part.key for part in parts if _is_number(first[part.key][0])]
    if len(single) == 1 and _two(fitted):
        return (single[0],)
    wanted = ", ".join(fitted.scores) or "prob_0, prob_1, …"
    seen = ", ".join(list(first)[:8]) + (", …" if len(first) > 8 else "")
    raise InputError(f"Expected the scores {fitted.whose}, such as {wanted}, but {path.name} has {seen}. Rename them.")


def _check_no_more(path: Path, first: Mapping[str, Sequence[Any] | Array], scores: tuple[str, ...]) -> None:
    """Refuse a file with a class more than the calibrator knows: a column called like its scores that is none."""
    start = next((prefix for prefix in _PREFIXES if all(name.startswith(prefix) for name in scores)), "")
    if len(scores) == 1 or not start:
        return
    more = [name for name in first if name.startswith(start) and name not in scores and _is_number(first[name][0])]
    if more:
        raise InputError(
            f"Expected {len(scores)} classes, which the calibrator was fitted on, but {path.name} has {more[0]} beside "
            f"{scores[0]}…{scores[-1]}. Fit one on predictions of the same model, or name the columns with --scores."
        )


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError, OverflowError):
        return False


def _npz_rows(path: Path, key: str) -> Iterator[Array]:
    with unzipped(path) as archive, archive.open(f"{key}.npy") as file:
        yield from _rows(StoredArray(file, f"{path.name}:{key}"))


def _npy_rows(path: Path) -> Iterator[Array]:
    with path.open("rb") as file:
        yield from _rows(StoredArray(file, path.name))


def _rows(rows: StoredArray) -> Iterator[Array]:
    n, step = rows.shape[0] if rows.shape else 0, rows_per_chunk(rows.shape[1] if len(rows.shape) > 1 else 2)
    for start in range(0, n, step):
        yield rows.take(min(step, n - start))


def _table_rows(path: Path, names: tuple[str, ...]) -> Iterator[Array]:
    row = 0
    with closing(read_table(path)(rows_per_chunk(max(100, len(names))), names, ())) as reading:
        for columns, _ in reading:
            values = [floats(columns[name], name, row, path.name) for name in names]
            yield values[0] if len(values) == 1 else np.stack(values, axis=1)
            row += len(values[0])


def _as_logits(raw: Array, kind: Kind, start: int, where: str) -> Array:
    if raw.dtype.kind not in "fiu" or raw.ndim not in (1, 2) or raw.shape[1:] == (0,):
        raise InputError(f"Expected scores (n, classes), but got {raw.dtype} {raw.shape} in {where}. Save numbers.")
    scores = raw.astype(np.float64)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores) if kind == "logits" else 1 - scores, scores], axis=1)
    off = ~np.isfinite(scores).all(1)
    if kind == "probs":
        off |= (np.abs(scores.sum(1) - 1) > SUM_TOLERANCE) | (scores < 0).any(1)
    if off.any():
        row = int(off.argmax())
        what = "finite logits" if kind == "logits" else "probabilities that are not negative and sum to 1"
        shown = ", ".join(f"{value:.4g}" for value in scores[row][:4])
        raise InputError(f"Expected {what}, but row {start + row} has {shown} in {where}. Correct it, or leave it out.")
    if kind == "logits":
        return scores
    with np.errstate(divide="ignore"):
        return finite_logs(np.log(scores), single=raw.dtype.kind == "f" and raw.dtype.itemsize <= 4)
