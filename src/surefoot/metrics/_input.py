"""The one door for predictions: tensors, arrays and lists come in, checked tensors go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import InputError

Values: TypeAlias = Tensor | np.ndarray[Any, Any] | Sequence[Any]
TOLERANCE = 1e-3  # of a row's sum; float16 rounds a softmax by up to half of it
_NATIVE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check(probs: Values, labels: Values) -> tuple[Tensor, Tensor]:
    """Turn probabilities and labels into tensors, and refuse what cannot be probabilities and labels.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one. A tensor, an array, a data frame or a list
            of rows, of any float type.
        labels: Class indices, shape ``(n,)``; a tensor, an array or a list of whole numbers.

    Returns:
        Probabilities of a float type, without gradients, and labels in int64.

    Raises:
        InputError: If they are anything else. Logits are never guessed.

    Example:
        >>> check([[0.25, 0.75]], [1])
        (tensor([[0.2500, 0.7500]], dtype=torch.float64), tensor([1]))
    """
    values, numbers = as_tensors(probs, labels, "probs")
    for start, rows in row_chunks(values):
        check_rows(rows, start)
    return values, numbers


def as_tensors(values: Values, labels: Values, what: str) -> tuple[Tensor, Tensor]:
    """Turn both into tensors; refuse shapes that do not fit and labels outside the classes.

    Args:
        values: Probabilities or logits, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.
        what: What the values are, for the message.

    Returns:
        Values of a float type, without gradients, their rows not yet checked; labels in int64.

    Raises:
        InputError: If they do not fit.
    """
    rows, numbers = as_tensor(values, what), as_tensor(labels, "labels")
    if rows.dtype not in _NATIVE:  # whole numbers, such as one-hot rows, and the shortest floats
        rows = rows.double()
    if rows.ndim != 2 or numbers.ndim != 1 or not len(numbers) or not rows.shape[1]:
        hint = " Of two classes, pass both columns: [1 − p, p]." if rows.ndim == 1 else ""
        raise InputError(
            f"Expected {what} (n, classes) and labels (n,) with n ≥ 1, but got {tuple(rows.shape)} and "
            f"{tuple(numbers.shape)}. Pass one row of {what} and one class number per example.{hint}"
        )
    if len(rows) != len(numbers):
        raise InputError(
            f"Expected one label per row of {what}, but got {len(rows):,} rows and {len(numbers):,} labels. "
            "Pass both of the same examples."
        )
    return rows, _class_numbers(numbers, rows.shape[1]).to(rows.device)


def _class_numbers(labels: Tensor, n_classes: int) -> Tensor:
    if labels.is_floating_point() or labels.is_complex():
        raise InputError(f"Expected whole numbers as labels, but got {labels.dtype}. Pass labels of an integer type.")
    numbers = labels.detach().cpu().long()
    low, high = numbers.numpy().min(), numbers.numpy().max()  # torch's threads would hold up what follows
    if low < 0 or high >= n_classes:
        wrong = int(((numbers < 0) | (numbers >= n_classes)).to(torch.uint8).argmax())
        raise InputError(
            f"Expected labels in 0…{n_classes - 1}, one of {n_classes} classes, but label {wrong} is "
            f"{int(numbers[wrong])}. Number the classes from 0."
        )
    return numbers


def as_tensor(values: Values, what: str) -> Tensor:
    """Turn a tensor, an array or a list into a tensor; lists of numbers keep all of their digits.

    Args:
        values: Numbers.
        what: What they are, for the message.

    Returns:
        The tensor, without gradients; an array's memory is shared where it can be.

    Raises:
        InputError: If these are no numbers, or rows of different lengths.
    """
    if isinstance(values, Tensor):
        return values.detach()
    if isinstance(values, list | tuple) and values and all(isinstance(each, Tensor) for each in values):
        values = [each.detach().cpu().tolist() for each in values]
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"Expected rows of {what} to be equally long, but: {error}.") from error
    if array.dtype.kind not in "biuf":  # some types of other packages, such as bfloat16, are floats to NumPy too
        try:
            array = array.astype(np.float32 if array.dtype.kind == "V" else np.float64, casting="safe")
        except TypeError as error:
            raise InputError(f"Expected {what} to be numbers, but got {array.dtype}. Convert them first.") from error
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    # Torch takes neither another byte order nor backward strides, and warns of memory that must not be written.
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    return torch.from_numpy(array)


def widened(values: Tensor) -> Tensor:
    """Return half precision in single precision, which holds it exactly; all else as it is."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def tolerance(dtype: torch.dtype) -> float:
    """Return how far a row's sum may be off 1: more for bfloat16, whose eight bits round each entry by 0.4 %."""
    return max(TOLERANCE, torch.finfo(dtype).eps)


def check_rows(probs: Tensor, start: int = 0) -> None:
    """Refuse rows that are not probabilities.

    Args:
        probs: Some rows.
        start: The number of the first one, for the message.

    Raises:
        InputError: If a row has a negative entry or does not sum to one.
    """
    wide, most = widened(probs), tolerance(probs.dtype)
    # A product adds short rows up several times faster than a sum does.
    sums = wide @ wide.new_ones(wide.shape[1]) if wide.shape[1] <= 64 else wide.sum(1)
    # Written so that NaN fails: a comparison with it is false.
    if bool(((sums - 1).abs() <= most).all()) and bool(wide.min() >= 0):
        return
    off = ~((sums - 1).abs() <= most) | (wide.min(1).values < 0)
    row = int(off.to(torch.uint8).argmax())
    found = f"row {start + row} sums to {sums[row].item():.6g} with minimum {wide[row].min().item():.6g}"
    repair = "Pass logits.softmax(-1)."
    if bool(wide[row].isnan().any()):
        repair = "Find out where the model gives NaN."
    elif bool(wide[row].min() >= 0) and bool(wide[row].max() <= 1):
        repair = "Divide each row by its sum, or pass all classes."
    raise InputError(f"Expected rows of probs to be non-negative and to sum to 1, but {found}. {repair}")


def row_chunks(values: Tensor, n_elements: int = 1 << 19) -> list[tuple[int, Tensor]]:
    """Split into runs of rows that stay in the processor's cache while several passes go over them.

    Args:
        values: Shape ``(n, classes)``.
        n_elements: About how many entries per chunk.

    Returns:
        The number of the first row, and the rows, for each chunk.
    """
    rows = max(1, n_elements // values.shape[1])
    return [(start, values[start : start + rows]) for start in range(0, len(values), rows)]
