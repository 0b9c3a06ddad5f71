"""Predictions in memory: a data frame, arrays by name, or :class:`~surefoot.schema.Predictions`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surefoot.errors import InputError
from surefoot.schema import Form, Predictions
from surefoot.sources._cells import Column
from surefoot.sources.labels import Array, Meaning
from surefoot.sources.names import Split, take_apart
from surefoot.sources.readers import Batch

_COARSE = 2**-7  # by which a sum of numbers in bfloat16 may be off


@dataclass(frozen=True)
class Held:
    """Columns of one length, read like those of a file.

    Attributes:
        name: What they are called in messages.
        columns: By name; scores may have a second dimension, one column per class.
        class_names: One per class, where they are known.
        meaning: What the labels mean, where that is known.
        split: Of which split the rows are, where that is known.
        form: What rows and columns are, where that is known.
        weights: What the column of weights is called, where that is known.
    """

    name: str
    columns: Mapping[str, Column]
    class_names: tuple[str, ...] = ()
    meaning: Meaning | None = None
    split: Split = ""
    form: Form = "multiclass"
    weights: str | None = None

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"Expected columns of one length, but got {sizes} in {self.name}. Pass one row each.")

    def batches(self, n: int, names: Sequence[str] | None, numbers: Sequence[str] = ()) -> Generator[Batch]:
        """Read some rows at a time, as a file of a table is read."""
        chosen = {name: self.columns[name] for name in (self.columns if names is None else names)}
        total = max(map(len, chosen.values()), default=0)
        for start in range(0, total, n):
            yield {name: values[start : start + n] for name, values in chosen.items()}, min(1.0, (start + n) / total)


def hold(source: Any) -> Held:
    """Take what is in memory for predictions.

    Args:
        source: A DataFrame of pandas or polars, a table of pyarrow, arrays by name, or ``Predictions``.

    Returns:
        Its columns.

    Raises:
        InputError: If it is none of these.

    Example:
        >>> hold({"probs": [[0.9, 0.1]], "labels": [0]}).columns["probs"]
        array([[0.9, 0.1]])
    """
    if isinstance(source, Held):
        return source
    if isinstance(source, Predictions):
        columns = {"logits": source.logits, "labels": source.labels}
        columns |= {} if source.weights is None else {"weights": source.weights}
        name, weights = f"predictions of the {source.split} split", None if source.weights is None else "weights"
        return Held(name, columns, source.class_names, "from-0", source.split, source.form, weights)
    name = type(source).__name__
    if isinstance(source, Mapping):
        arrays = {str(key): as_column(values) for key, values in source.items()}
        classes = next((key for key in arrays if (part := take_apart(key)) and part.role == "classes"), None)
        names = tuple(map(str, arrays.pop(classes))) if classes else ()
        return Held("arrays", arrays, names)
    if hasattr(source, "collect_schema"):  # polars, perhaps not computed yet
        source = source.lazy().collect()
    if hasattr(source, "to_pydict"):  # pyarrow
        return Held(name, {str(key): as_column(source[key]) for key in source.schema.names})
    if hasattr(source, "columns") and hasattr(source, "__getitem__") and not hasattr(source, "detach"):
        return Held(name, {str(key): as_column(source[key]) for key in source.columns})
    raise InputError(
        f"Expected a file, a DataFrame or arrays by name, but got a {name}. Pass a path, or probs= and labels=."
    )


def with_columns(held: Held, columns: Mapping[str, Any]) -> Held:
    """Put more columns beside those of predictions in memory.

    Args:
        held: The predictions.
        columns: By name, one value per row.

    Returns:
        Both together; a column of the same name is replaced.
    """
    return replace(held, columns={**held.columns, **{name: as_column(values) for name, values in columns.items()}})


def as_column(values: Any) -> Column:
    """Read a list, a NumPy array, a tensor of any float type, or the column of a data frame.

    Args:
        values: One value, or one list of values, per row.

    Returns:
        An array of numbers or texts, or a list in which a gap is None.
    """
    if hasattr(values, "detach"):  # a tensor, of types that NumPy may not know
        values = values.detach().cpu()
        coarse = "bfloat16" in str(values.dtype)
        known = str(values.dtype) in ("torch.float32", "torch.float64") or not values.is_floating_point()
        numbers = np.asarray((values if known else values.double()).numpy())
        return _sum_to_one(numbers) if coarse else numbers
    if hasattr(values, "isna"):  # pandas, whose gaps have many shapes
        gaps = values.isna()
        plain = values.dtype.kind in "fiub" and not gaps.any()
        rows = [None if gap else value for gap, value in zip(gaps, values, strict=True)]
        return np.asarray(values) if plain else _rows(rows)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    if getattr(values, "null_count", None) is not None and (found := _without_gaps(values)) is not None:
        return found
    to_list = next((getattr(values, name) for name in ("to_pylist", "to_list") if hasattr(values, name)), None)
    return _rows(list(values) if to_list is None else to_list())


def _sum_to_one(rows: Array) -> Array:
    """Take away what eight bits round off shares, so that rows which sum to nearly 1 do so again."""
    sums = rows.sum(axis=-1, keepdims=True) if rows.ndim == 2 and rows.shape[1] > 1 else np.zeros(1)
    are_shares = rows.size and rows.min() >= 0 and bool((np.abs(sums - 1) <= _COARSE).all())
    shares: Array = rows / sums if are_shares else rows
    return shares


def _without_gaps(values: Any) -> Column | None:
    """Read a column of numbers of pyarrow or polars as it lies in memory; None where there are gaps or other things."""
    gaps = values.null_count() if callable(values.null_count) else values.null_count
    if gaps:
        return None
    found = np.asarray(values.to_numpy())
    return found if found.dtype.kind in "fiub" else None


def _rows(rows: list[Any]) -> Column:
    rows = [list(row) if isinstance(row, tuple | np.ndarray) else row for row in rows]
    if any(row is None for row in rows):
        return rows
    try:
        found = np.asarray(rows)
    except ValueError:  # lists of different lengths
        return rows
    return found if found.dtype.kind in "fiubU" else rows
