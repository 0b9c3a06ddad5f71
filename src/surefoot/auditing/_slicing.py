"""Which slice a row is in: values as they are, numbers in parts of about as many rows, rare values together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from surefoot.auditing._engine import HERE, Engine
from surefoot.auditing._reading import OnRows
from surefoot.auditing._sampling import Sample
from surefoot.errors import InputError
from surefoot.sources.groups import Part, read_group
from surefoot.sources.labels import Array
from surefoot.sources.source import Source

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


def slicing_of(source: Source, engine: Engine = HERE) -> Slicing:
    """Look through the columns that divide the rows, and settle how.

    Args:
        source: Says by what.
        engine: Looks through them.

    Returns:
        The slices. Of a column with many values, numbers are put into parts with about as many rows in each, and the
        rarest of others together.

    Raises:
        InputError: If a column has so many values that most rows would be put together.
    """
    if not source.groups:
        return Slicing()
    seen = engine.walk(source, _look).columns
    groups = {group: read_group(group, seen.keys()) for group in dict.fromkeys(source.groups)}
    parts = dict.fromkeys(part for each in groups.values() for part in each)
    settled = {part: seen[part.column].settle(part.parts) for part in parts}
    notes = tuple(note for _, _, note in settled.values() if note)
    plan = Slicing(groups, {part: naming for part, (naming, _, _) in settled.items()}, notes=notes)
    return _crossed(plan, {part: n for part, (_, n, _) in settled.items()}, source, engine)


def _columns(source: Source) -> Iterator[tuple[Mapping[str, Array], Array]]:
    """Read the columns, and the numbers of their rows."""
    done = 0
    if source.start_groups is not None:
        with closing(source.start_groups()) as reading:
            for columns in reading:
                n = len(next(iter(columns.values())))
                yield columns, source.first_row + np.arange(done, done + n)
                done += n
    else:
        with closing(source.start()) as rows:
            for raw in rows:
                found = raw.numbered(done)
                done = int(found[-1]) + 1 if len(found) else done
                yield raw.groups, source.first_row + found


class _Look:
    """What is in all columns."""

    def __init__(self) -> None:
        self.columns: dict[str, _Seen] = {}

    def merge(self, other: _Look) -> None:
        """Add what was seen in other rows."""
        for name, seen in other.columns.items():
            if name in self.columns:
                self.columns[name].merge(seen)
            else:
                self.columns[name] = seen


def _look(source: Source, on_rows: OnRows | None = None) -> _Look:
    found = _Look()
    for columns, rows in _columns(source):
        for name, values in columns.items():
            found.columns.setdefault(name, _Seen(name, source.where)).add(values, rows)
    return found


class _Combinations:
    """How often values of several columns stand together."""

    def __init__(self, groups: Sequence[str]) -> None:
        self.counts: dict[str, Counter[str]] = {group: Counter() for group in groups}

    def merge(self, other: _Combinations) -> None:
        """Add what was counted in other rows."""
        for group, found in other.counts.items():
            self.counts[group].update(found)


def _combine(source: Source, on_rows: OnRows | None, plan: Slicing, groups: Sequence[str]) -> _Combinations:
    found = _Combinations(groups)
    for columns, _ in _columns(source):
        for group in groups:
            found.counts[group].update(plan.of(columns)[group].tolist())
    return found


def _crossed(plan: Slicing, sizes: Mapping[Part, int], source: Source, engine: Engine) -> Slicing:
    """Put the rarest combinations together where there may be too many."""
    many = [g for g, parts in plan.groups.items() if np.prod([sizes[part] for part in parts]) > MOST_SLICES]
    many = [group for group in many if len(plan.groups[group]) > 1]
    if not many:
        return plan
    counts = engine.walk(source, partial(_combine, plan=plan, groups=many)).counts
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
        self._missing = False
        self._sample = Sample("numbers of a group")

    def add(self, values: Array, rows: Array) -> None:
        """Look at some rows, with their numbers."""
        self._n += len(values)
        known = values != MISSING
        self._missing |= not bool(known.all())
        if not self._full:
            self._counts.update(values.tolist())
            self._full = len(self._counts) > TRACKED
        if self._numeric:
            numbers = _numbers(values[known])
            self._numeric = numbers is not None
            if numbers is not None and len(numbers):
                self._whole &= bool((numbers == np.floor(numbers)).all())
                self._sample.add(SAMPLED, rows[known], numbers)

    def merge(self, other: _Seen) -> None:
        """Add what was seen in other rows."""
        self._n += other._n
        self._missing |= other._missing
        self._counts.update(other._counts)
        self._full |= other._full or len(self._counts) > TRACKED
        self._numeric &= other._numeric
        self._whole &= other._whole
        if self._numeric:
            self._sample.merge(other._sample)

    def settle(self, parts: int | None) -> tuple[Naming, int, str]:
        """Return what makes slices of values, how many there are, and what must be known about them."""
        if parts is None and not self._full and len(self._counts) <= MOST_SLICES:
            return (lambda values: values), len(self._counts), ""
        numbers = self._sample.taken()[0] if self._numeric and len(self._sample) else None
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

        return name, len(names) + self._missing, note


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
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: MOST_SLICES - 1]
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
