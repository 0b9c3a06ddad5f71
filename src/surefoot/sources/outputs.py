"""What a model says about the batches of a loader: run once, kept on disk, read like a file as often as need be."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.modes import in_eval_mode
from surefoot.outputs import device_of, run_batch
from surefoot.sources.labels import Array
from surefoot.sources.memory import Held

IN_MEMORY = 1 << 25  # bytes of a column that are kept in memory before a temporary file is made


class StoredRows(Sequence[Any]):
    """A column that is written once, some rows at a time, and read in slices; on disk where it is large.

    Args:
        name: What it is called, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Without a name of its own, so nothing is left behind; closed with whoever holds the column.
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._n, self._shape, self._dtype = 0, (), np.dtype(np.float32)

    def add(self, rows: Array) -> None:
        """Write the next rows; the first ones say what shape and type all have."""
        if not self._n:
            self._shape, self._dtype = rows.shape[1:], rows.dtype
        if rows.shape[1:] != self._shape:
            raise InputError(
                f"Expected {self._name} of one shape in every batch, but got {self._shape} and {rows.shape[1:]} per "
                "row. Give every row as many."
            )
        self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(rows, self._dtype).tobytes())
        self._n += len(rows)

    def __len__(self) -> int:
        """Count the rows."""
        return self._n

    def __getitem__(self, rows: Any) -> Any:
        """Read a slice of consecutive rows, or one row."""
        if not isinstance(rows, slice):
            return self[rows : rows + 1][0]
        start, stop, _ = rows.indices(self._n)
        width = int(np.prod(self._shape, dtype=int)) * self._dtype.itemsize
        self._file.seek(start * width)
        taken = self._file.read(max(0, stop - start) * width)
        return np.frombuffer(taken, self._dtype).reshape(-1, *self._shape).copy()


def hold_outputs(
    model: nn.Module,
    loader: Iterable[Any] | None,
    class_names: Sequence[str] = (),
    on_rows: Callable[[int, float | None], None] | None = None,
) -> Held:
    """Run a model in eval mode once over a loader, and keep logits and labels to be read like those of a file.

    Args:
        model: Gives logits, or an output that holds them as ``logits``. Its modes are afterwards as they were.
        loader: Gives pairs of inputs and labels; or dictionaries with ``labels``, of which the rest are the model's
            arguments.
        class_names: One per class, where they are known.
        on_rows: Called while it runs, with the rows so far and their share of all.

    Returns:
        Columns ``logits`` and ``labels``. Large ones are in a temporary file, which goes with them.

    Raises:
        InputError: If there is no loader, it gives something else, or the model no logits.

    Example:
        >>> held = hold_outputs(nn.Identity(), [(torch.tensor([[2.0, 0.0]]), torch.tensor([1]))])
        >>> held.columns["logits"][:1], held.columns["labels"][:1]
        (array([[2., 0.]], dtype=float32), array([1]))
    """
    if loader is None or isinstance(loader, str) or not hasattr(loader, "__iter__"):
        got = "none" if loader is None else f"a {type(loader).__name__}"
        raise InputError(f"Expected a loader of inputs and labels beside the model, but got {got}. Pass one.")
    device = device_of(model)
    logits, labels = StoredRows("logits"), StoredRows("labels")
    batches = len(loader) if isinstance(loader, Sized) else None
    with torch.no_grad(), in_eval_mode(model):
        for number, batch in enumerate(loader, 1):
            found, targets = _rows(model, batch, device)
            logits.add(found)
            labels.add(targets)
            if on_rows:
                on_rows(len(logits), number / batches if batches else None)
    if not len(logits):
        raise InputError("Expected pairs of inputs and labels, but the loader gives nothing. Pass some rows.")
    return Held(type(model).__name__, {"logits": logits, "labels": labels}, tuple(map(str, class_names)))


def _rows(model: nn.Module, batch: Any, device: torch.device) -> tuple[Array, Array]:
    output, truth = run_batch(model, batch, device)
    if not isinstance(output, Tensor) or output.ndim not in (1, 2) or len(truth) != len(output):
        shape = tuple(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise InputError(
            f"Expected logits (n, classes) and labels (n,), but got {shape} for labels {tuple(truth.shape)}. Give one "
            "row of logits per label."
        )
    return _plain(output), _plain(truth)


def _plain(rows: Tensor) -> Array:
    """Bring rows to NumPy, a column of its own as a flat array, and half precision as float32."""
    rows = rows.detach().cpu()
    rows = rows[:, 0] if rows.ndim == 2 and rows.shape[1] == 1 else rows
    if rows.is_floating_point():
        found: Array = (rows if rows.dtype is torch.float64 else rows.float()).numpy()
        return found
    whole: Array = rows.long().numpy()
    return whole
