"""A confidence and whether it was right: verbalised confidences, a judge's votes, a detector's boxes."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.places import unzipped
from surefoot.sources._cells import Column, floats, texts
from surefoot.sources._columns import score_like
from surefoot.sources._stored import StoredArray, arrays_in
from surefoot.sources.labels import MISSING, Array
from surefoot.sources.names import take_apart
from surefoot.sources.readers import Batch, Batches
from surefoot.sources.source import Raw, Source, rows_per_chunk
from surefoot.sources.told import Said
from surefoot.sources.weights import as_weights
from surefoot.sources.window import rows_in_view

_SURE = ("confidence", "conf", "p_correct", "verbalised_confidence", "verbalized_confidence", "box_score", "certainty")
_SURE_IF_SAID = (*_SURE, "score", "scores", "prob", "probs", "probability", "p", "logit", "logits")
_RIGHT = ("correct", "is_correct", "was_correct", "right", "is_right", "hit", "tp")
_RIGHT_IF_SAID = (*_RIGHT, "judge", "vote", "label", "labels", "target", "y", "y_true")
_YES = frozenset({"1", "1.0", "true", "t", "yes", "y", "correct", "right", "hit", "tp", "pass", "passed"})
_NO = frozenset({"0", "0.0", "false", "f", "no", "n", "incorrect", "wrong", "miss", "fp", "fail", "failed"})
_PERCENT = re.compile(r"^([-+\d.]+(?:e[-+]?\d+)?)\s*(?:%|percent)$", re.IGNORECASE)
_SHARE = re.compile(r"^([\d.]+)\s*(?:/|out of|of)\s*([\d.]+)$", re.IGNORECASE)


def find_columns(
    names: Iterable[str], lists: Sequence[str], said: bool, scores: Sequence[str], labels: str | None
) -> tuple[str, str] | None:
    """Find the confidence, and whether it was right.

    Args:
        names: Of all columns or arrays.
        lists: Those that hold several numbers per row.
        said: Whether somebody said that this is what they are; then weaker names count too.
        scores: The confidence, where somebody named it.
        labels: Likewise what says whether it was right.

    Returns:
        Both names; None where these are scores of classes, or something is missing.

    Example:
        >>> find_columns(["id", "conf", "isCorrect"], [], False, (), None)
        ('conf', 'isCorrect')
        >>> find_columns(["conf", "correct", "prob_a", "prob_b"], [], False, (), None) is None
        True
        >>> find_columns(["score", "correct", "label"], [], False, (), None) is None  # a risk and what happened
        True
    """
    names = list(names)
    if not said and (lists or score_like(names) or scores or labels):
        return None
    has_labels = any(found.role == "labels" for found in map(take_apart, names) if found)
    unsaid = _SURE if has_labels else (*_SURE, "score")  # beside labels, a score is that of a class
    sure = scores[0] if len(scores) == 1 else _first(names, _SURE_IF_SAID if said else unsaid, labels)
    right = labels or _first(names, _RIGHT_IF_SAID if said else _RIGHT, sure)
    return (sure, right) if sure and right and sure != right else None


def _first(names: Sequence[str], known: Sequence[str], other: str | None) -> str | None:
    plain = {_plain(name): name for name in reversed(names) if name != other}
    return next((plain[word] for word in known if word in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()).strip("_")


def open_confidence(
    where: str,
    batches: Batches,
    names: tuple[str, str],
    groups: tuple[str, ...],
    kind: Said | None,
    notes: Sequence[str],
    weight: str | None = None,
) -> Source:
    """Make a source of two columns.

    Args:
        where: The file, for messages.
        batches: Reads it.
        names: The confidence, and whether it was right.
        groups: Columns that divide the rows into slices.
        kind: Shares, percent or logits, where somebody said so.
        notes: What must be said about the file.
        weight: The column that says how much a row counts; None where all count alike.

    Returns:
        The source, all settled.
    """
    sure, right = names

    def start() -> Generator[Raw]:
        row = 0
        wanted = list(dict.fromkeys((*names, *groups, *([weight] if weight else []))))
        with closing(batches(rows_per_chunk(2), wanted, ())) as reading:
            for columns, share in reading:
                found = confidences(columns[sure], kind, row, where)
                label = judgements(columns[right], row, where)
                weights = floats(columns[weight], weight, row, where) if weight else None
                yield Raw(found, label, {name: texts(columns[name]) for name in groups}, share, weights)
                row += len(found)

    def start_labels() -> Generator[Array]:
        return (raw.labels for raw in start())

    how = {"percent": " in percent, as you said", "logits": " as log-odds, as you said"}.get(str(kind), "")
    took = f"{sure!r} as confidence{how}, {right!r} as whether it was right" + as_weights(weight)
    return Source(
        *("", "", took, "probs", ("wrong", "right")),
        *(where, ((sure,), right), start, start_labels),
        meaning="from-0",
        settled=True,
        notes=tuple(notes),
        form="confidence",
        weights=weight,
        n_classes=2,
    )


def confidences(values: Column, kind: Said | None, start: int, where: str) -> Array:
    """Read confidences: 0.9, "90%", "90 %", "9/10" or "9 out of 10".

    Args:
        values: Some rows.
        kind: ``percent``, ``logits``, or shares.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        In [0, 1]; NaN where there is none.

    Raises:
        InputError: If one is no share of 1.

    Example:
        >>> confidences(["90%", "0.5", "9/10", ""], None, 0, "a.csv")
        array([0.9, 0.5, 0.9, nan])
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiu":
        found = values.astype(np.float64) / (100 if kind == "percent" else 1)
    else:
        found = np.array([_one(value, kind, start + row, where) for row, value in enumerate(values)], np.float64)
    if kind == "logits":
        found = 1 / (1 + np.exp(-found))
    off = (found < 0) | (found > 1)
    if off.any():
        row = int(off.argmax())
        is_percent = kind is None and 1 < found[row] <= 100
        do = "Say --percent if they are percent." if is_percent else "Correct it, or say --logits for log-odds."
        raise InputError(
            f"Expected confidences in [0, 1] or with a % sign, but row {start + row} has {values[row]} in {where}. {do}"
        )
    return found


def _one(value: Any, kind: Said | None, row: int, where: str) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return float("nan")
    text = str(value).strip()
    if match := _PERCENT.match(text):
        return float(match[1]) / 100
    if (match := _SHARE.match(text)) and float(match[2]):
        return float(match[1]) / float(match[2])
    try:
        return float(text) / (100 if kind == "percent" else 1)
    except ValueError as error:
        raise InputError(
            f"Expected confidences such as 0.9, 90% or 9/10, but row {row} has {text[:40]!r} in {where}. Write numbers."
        ) from error


def judgements(values: Column, start: int, where: str) -> Array:
    """Read whether predictions were right: 1 and 0, true and false, yes and no, and the like.

    Args:
        values: Some rows.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        1 and 0 as numbers; NaN where it does not say.

    Raises:
        InputError: If it is anything else.

    Example:
        >>> judgements(["yes", "No", "1"], 0, "a.csv")
        array([1., 0., 1.])
    """
    found = np.empty(len(values))
    for row, value in enumerate(values):
        text = "" if value is None else str(value).strip().lower()
        if text in MISSING - _NO:
            found[row] = np.nan
        elif text in _YES or text in _NO:
            found[row] = text in _YES
        else:
            raise InputError(
                f"Expected 1 or 0, or yes or no, for right and wrong, but row {start + row} has {value!r} in {where}. "
                "Say with --labels which column it is."
            )
    return found


def npz_batches(path: Path) -> Batches:
    """Read flat arrays of an ``.npz`` file like the columns of a table."""

    def batches(n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        with unzipped(path) as archive, ExitStack() as files:
            chosen = names if names is not None else list(arrays_in(path))
            arrays = {
                name: StoredArray(files.enter_context(archive.open(f"{name}.npy")), f"{path.name}:{name}")
                for name in chosen
            }
            total = _one_length({name: array.shape for name, array in arrays.items()}, path.name)
            first, last = rows_in_view(total)
            if first:
                for array in arrays.values():
                    array.skip(first)
            for start in range(first, last, n):
                size = min(n, last - start)
                yield (
                    {name: array.take(size) for name, array in arrays.items()},
                    (start - first + size) / (last - first),
                )

    return batches


def _one_length(shapes: Mapping[str, tuple[int, ...]], where: str) -> int:
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        sizes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"Expected flat arrays of one length, but got {sizes} in {where}. Save one number per row.")
    return next(iter(shapes.values()))[0]
