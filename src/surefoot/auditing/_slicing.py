"""Which slice a row is in: values as they are, numbers in parts of about as many rows, rare values together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from surefoot.auditing._groups import Part, read_group
from surefoot.auditing._labels import Array
from surefoot.auditing._sampling import Sample
from surefoot.auditing._source import Source
from surefoot.errors import InputError

MOST_SLICES = 50  # of one column or crossing
PARTS = 5  # of numbers of which there are more
TRACKED = 20_000  # different values that are counted
SAMPLED = 100_000  # numbers that quantiles are taken of
MISSING, OTHER = "(missing)", "(other)"
Naming = Callable[[Array], Array]  # texts of a column → names of slices


@dataclass(frozen=True)
class Slicing:
    """How rows are divided.

    Attributes:
        groups: By what was asked for, its columns.
        naming: By column and number of parts, what makes slices of its values.
        kept: By crossing, the slices that are not put together, where there would be too many.
        notes: What a reader of the results must know.
    """

    groups: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    naming: Mapping[Part, Naming] = field(default_factory=dict)
    kept: Mapping[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def of(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Name the slices of some rows.

        Args:
            columns: Texts by column.

        Returns:
            Names of slices, by what was asked for.
        """
        return {group: self._named(group, columns) for group in self.groups}

    def _named(self, group: str, columns: Mapping[str, Array]) -> Array:
        first, *rest = (self.naming[part](columns[part.column]) for part in self.groups[group])
        for other in rest:
            first = np.char.add(np.char.add(first, " × "), other)
        if group in self.kept:
            first = np.where(np.isin(first, self.kept[group]), first, OTHER)
        return first


def slicing_of(source: Source) -> Slicing:
    """Look through the columns that divide the rows, and settle how.

    Args:
        source: Says by what.

    Returns:
        The slices. Of a column with many values, numbers are put into parts with about as many rows in each, and the
        rarest of others together.

    Raises:
        InputError: If a column has so many values that most rows would be put together.
    """
    if not source.groups:
        return Slicing()
    seen: dict[str, _Seen] = {}
    for columns in _columns(source):
        for name, values in columns.items():
            seen.setdefault(name, _Seen(name, source.where)).add(values)
    groups = {group: read_group(group, seen.keys()) for group in dict.fromkeys(source.groups)}
    parts = dict.fromkeys(part for each in groups.values() for part in each)
    settled = {part: seen[part.column].settle(part.parts) for part in parts}
    notes = tuple(note for _, _, note in settled.values() if note)
    plan = Slicing(groups, {part: naming for part, (naming, _, _) in settled.items()}, notes=notes)
    return _crossed(plan, {part: n for part, (_, n, _) in settled.items()}, source)


def _columns(source: Source) -> Iterator[Mapping[str, Array]]:
    if source.start_groups is not None:
        with closing(source.start_groups()) as reading:
            yield from reading
    else:
        with closing(source.start()) as rows:
            yield from (raw.groups for raw in rows)


def _crossed(plan: Slicing, sizes: Mapping[Part, int], source: Source) -> Slicing:
    """Put the rarest combinations together where there may be too many."""
    many = [g for g, parts in plan.groups.items() if np.prod([sizes[part] for part in parts]) > MOST_SLICES]
    many = [group for group in many if len(plan.groups[group]) > 1]
    if not many:
        return plan
    counts: dict[str, Counter[str]] = {group: Counter() for group in many}
    for columns in _columns(source):
        for group in many:
            counts[group].update(plan.of(columns)[group].tolist())
    kept, notes = {}, []
    for group, found in counts.items():
        if len(found) > MOST_SLICES:
            kept[group], note = _frequent(group, found, sum(found.values()), source.where, "combinations")
            notes.append(note)
    return Slicing(plan.groups, plan.naming, kept, (*plan.notes, *notes))


class _Seen:
    """What is in a column: how often each value stands there, and a sample of its numbers."""

    def __init__(self, name: str, where: str) -> None:
        self._name, self._where = name, where
        self._counts: Counter[str] = Counter()
        self._n, self._full, self._numeric, self._whole = 0, False, True, True
        self._sample = Sample("numbers of a group")

    def add(self, values: Array) -> None:
        """Look at some rows."""
        self._n += len(values)
        if not self._full:
            self._counts.update(values.tolist())
            self._full = len(self._counts) > TRACKED
        if self._numeric:
            numbers = _numbers(values[values != MISSING])
            self._numeric = numbers is not None
            if numbers is not None and len(numbers):
                self._whole &= bool((numbers == np.floor(numbers)).all())
                self._sample.add(SAMPLED, numbers)

    def settle(self, parts: int | None) -> tuple[Naming, int, str]:
        """Return what makes slices of values, how many there are, and what must be known about them."""
        if parts is None and len(self._counts) <= MOST_SLICES:
            return (lambda values: values), len(self._counts), ""
        numbers = self._sample.taken()[0] if self._numeric and set(self._counts) != {MISSING} else None
        if numbers is None:
            if parts is not None:
                raise InputError(
                    f"Expected numbers to divide into {parts} parts, but {self._name!r} holds others in {self._where}. "
                    f"Say --group {self._name}."
                )
            if self._full:
                raise _too_many(self._name, f"more than {TRACKED:,}", "values", 0.0, self._where)
            kept, note = _frequent(self._name, self._counts, self._n, self._where, "values")
            return (lambda values: np.where(np.isin(values, kept), values, OTHER)), len(kept) + 1, note
        edges = np.unique(np.quantile(numbers, np.arange(1, parts or PARTS) / (parts or PARTS), method="inverted_cdf"))
        edges = edges[edges < numbers.max()]
        names = np.array(_part_names(edges, whole=self._whole))
        count = f"more than {TRACKED:,}" if self._full else f"{len(self._counts.keys() - {MISSING}):,}"
        note = f"{self._name} holds {count} different numbers: in {len(names)} parts with about as many rows in each."

        def name(values: Array) -> Array:
            known = values != MISSING
            found = np.full(len(values), MISSING, dtype=object)
            found[known] = names[np.searchsorted(edges, values[known].astype(np.float64), side="left")]
            return found.astype(str)

        return name, len(names) + (MISSING in self._counts), note


def _numbers(values: Array) -> Array | None:
    try:
        return values.astype(np.float64)
    except ValueError:
        return None


def _part_names(edges: Array, *, whole: bool) -> list[str]:
    """Name parts (a, b] of numbers, with as few digits as tell them apart."""
    if not len(edges):
        return ["all"]
    texts = next(
        found
        for digits in range(3, 18)
        if len(set(found := [f"{int(edge)}" if whole else f"{edge:.{digits}g}" for edge in edges])) == len(edges)
    )
    inner = [
        (f"{int(low) + 1}" if whole else a, b) for low, a, b in zip(edges[:-1], texts[:-1], texts[1:], strict=True)
    ]
    return [f"up to {texts[0]}", *(b if a == b else f"{a} to {b}" for a, b in inner), f"above {texts[-1]}"]


def _frequent(name: str, counts: Counter[str], n: int, where: str, what: str) -> tuple[Array, str]:
    """Keep the most frequent values, and refuse where they are not most of the rows."""
    most = counts.most_common(MOST_SLICES - 1)
    share = sum(count for _, count in most) / n
    if share < 0.5:
        raise _too_many(name, f"{len(counts):,}", what, share, where)
    note = (
        f"Of {len(counts):,} {what} of {name} the {len(most)} most frequent have slices of their own; the others are "
        f"together, as {OTHER}."
    )
    return np.array([value for value, _ in most]), note


def _too_many(name: str, count: str, what: str, share: float, where: str) -> InputError:
    hold = f", and the most frequent {MOST_SLICES - 1} hold {100 * share:.0f} % of the rows" if share else ""
    return InputError(
        f"Expected at most {MOST_SLICES} slices, but {name!r} has {count} {what} in {where}{hold}. Group by something "
        "with fewer values."
    )
