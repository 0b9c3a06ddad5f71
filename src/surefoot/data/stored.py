"""Inputs that do not fit in memory: they stay in their files and are read when rows are asked for.

To whoever takes rows they look like a tensor. Whatever needs all of them at once is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from surefoot.data._classes import check_labels, check_some_choice
from surefoot.data._divide import Array
from surefoot.data._standardise import Kind, kind_of, measure, to_inputs
from surefoot.errors import InputError
from surefoot.scaling import Scaling
from surefoot.schema import SPLITS, Rows, Split, SplitName, Splits

MEASURED = 5_000  # training rows that say how inputs are scaled, where they are not all in memory
_workers = 0  # processes that read ahead; like threads, no part of what determines a run


class Readable(Protocol):
    """An array, or whatever reads rows when they are asked for."""

    def __getitem__(self, rows: Array, /) -> Array:
        """Return these rows."""


def load_workers() -> int:
    """Return how many processes read ahead."""
    return _workers


def set_load_workers(n: int) -> None:
    """Let so many processes read stored inputs ahead of whoever goes through them; 0 for none.

    Args:
        n: How many.

    Raises:
        InputError: If it is no number of processes.
    """
    global _workers
    if n < 0:
        raise InputError(f"Expected --load-workers ≥ 0, but got {n}. Write 2, or leave it out.")
    _workers = n


class Stored(Dataset[Tensor]):
    """Rows of a file or a folder as a network sees them, read and scaled when they are asked for.

    Args:
        source: Reads raw rows.
        rows: Which of them, in this order.
        scaling: What the training split had; None for what stays as it is.
        kind: What the raw values are.
        shape: Of one input, as a network sees it.
    """

    def __init__(
        self, source: Readable, rows: Array, scaling: Scaling | None, kind: Kind, shape: Sequence[int]
    ) -> None:
        self._source, self._rows, self._scaling, self._kind = source, rows, scaling, kind
        self.shape = torch.Size((len(rows), *shape))
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def __getitem__(self, rows: Any) -> Tensor:
        """Read rows: a slice, numbers or a mask."""
        chosen = self._rows[rows.cpu().numpy() if isinstance(rows, Tensor) else rows]
        return to_inputs(self._source[np.atleast_1d(chosen)], self._scaling, self._kind)

    def __getitems__(self, rows: list[int]) -> Tensor:
        """Read a batch, for torch's DataLoader."""
        return self[np.asarray(rows)]

    def first(self, n: int) -> Stored:
        """Return the first rows, unread."""
        return self._some(slice(n))

    def split(self, size: int) -> list[Stored]:
        """Divide the rows into chunks, unread."""
        return [self._some(slice(start, start + size)) for start in range(0, len(self), size)]

    def to(self, device: torch.device | str) -> Tensor:
        """Read all rows and bring them to a device."""
        return self[:].to(device)

    def _some(self, rows: slice) -> Stored:
        return Stored(self._source, self._rows[rows], self._scaling, self._kind, self.shape[1:])

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse what only a tensor has."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise InputError(_whole(f"inputs.{name}"))

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Refuse to be taken for a tensor."""
        raise InputError(_whole(f"torch.{getattr(function, '__name__', function)}"))


def unread_splits(
    sample: Array,
    labels: Mapping[SplitName, Array],
    rows: Mapping[SplitName, Rows],
    names: Sequence[str],
    *,
    origin: str,
    kind: str | None,
    hold: Callable[[SplitName, Array, Scaling | None, Kind, Sequence[int]], Any],
    mark: Callable[[SplitName, SplitName, Array, Array], bytes],
    known_by: Callable[[Scaling | None, Kind, tuple[int, ...]], str],
) -> Splits:
    """Make splits whose inputs are not in memory.

    Args:
        sample: Raw training rows, which say how inputs are scaled.
        labels: Of the published parts.
        rows: Who gets which of their rows.
        names: One per class.
        origin: Where they come from, for error messages.
        kind: What the inputs are; None goes by their type.
        hold: Makes the inputs of a split, of a part, its rows, and how they are seen.
        mark: What tells a split's rows from others: of its name, its part, the rows and their labels.
        known_by: What tells the data set from others beside its rows.

    Returns:
        The three splits.

    Raises:
        InputError: If a split is empty, or a label is no class.
    """
    known = kind_of(sample, kind, origin)
    scaling = measure(sample, known)
    shape = tuple(to_inputs(sample[:1], scaling, known).shape[1:])
    digest = hashlib.sha256(known_by(scaling, known, shape).encode())
    splits = {}
    for name in SPLITS:
        part: Any = rows[name].source
        numbers, own = rows[name].numbers, labels[part][rows[name].numbers]
        check_labels(own, len(names), f"{origin}, {name} split")
        if not len(own):
            raise InputError(f"Expected at least one example, but got an empty {origin}, {name} split. Give it some.")
        digest.update(mark(name, part, numbers, own))
        splits[name] = Split(hold(part, numbers, scaling, known, shape), torch.from_numpy(own), rows[name])
    check_some_choice(splits["train"].labels.numpy(), names, f"{origin}, train split")
    return Splits(**splits, class_names=tuple(names), fingerprint=digest.hexdigest(), scaling=scaling)


def _whole(what: str) -> str:
    return (
        f"Expected all inputs in memory for {what}, but these are read from their files when they are needed. Leave "
        "in_memory=false out, take fewer with n_train, or choose a method that goes by batches."
    )


def batches_of(inputs: Tensor | Stored, batches: Sequence[Tensor | slice]) -> Iterator[Tensor]:
    """Go through batches of inputs; what is stored is read ahead.

    Args:
        inputs: A tensor, or stored ones.
        batches: Their rows.

    Yields:
        The inputs of each batch.
    """
    passing = getattr(type(inputs), "in_order", None)
    if passing is not None:
        yield from passing(inputs, batches)
        return
    if not isinstance(inputs, Stored) or _workers == 0 or len(batches) < 2:
        for rows in batches:
            yield inputs[rows]
        return
    numbers = torch.arange(len(inputs))
    listed = [numbers[rows].tolist() for rows in batches]
    yield from DataLoader(
        inputs,
        batch_sampler=listed,
        collate_fn=_as_it_is,
        num_workers=min(_workers, len(batches)),
        generator=torch.Generator(),  # else it would draw from the numbers that dropout draws from
    )


def _as_it_is(batch: Any) -> Any:
    return batch
