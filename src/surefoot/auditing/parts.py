"""An audit in parts: each worker reads its own rows, and what they found merges to the audit of all."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from surefoot.auditing._asked import Asked
from surefoot.auditing._engine import HERE, M, Step
from surefoot.auditing._finished import finish_audit
from surefoot.auditing._labels_read import LabelsRead, collect_labels
from surefoot.auditing._reading import OnRows, Reading
from surefoot.auditing._slicing import MOST_SLICES, slicing_of
from surefoot.auditing.audit import check_labels_options, choose_one
from surefoot.auditing.audit_labels import finish_labels
from surefoot.auditing.result import Audit
from surefoot.errors import InputError
from surefoot.places import place
from surefoot.sources.files import is_path, name_of, open_predictions
from surefoot.sources.source import Source
from surefoot.sources.told import Told

_SAME = ("form", "kind", "percent", "class_names", "meaning", "model", "split", "weights", "weights_are", "groups")
_CHOICES = re.compile(r"one of (\d+)(?: to (\d+))? choices")


@dataclass(frozen=True)
class AuditPart:
    """What was found in some of the rows; together with the other parts, :meth:`Audit.merge` makes an audit of it.

    It can be pickled, as what runs workers does to send things between them: sums and samples of a few megabytes at
    most, however many rows there are.

    Attributes:
        file: What the rows are called.
        source: Where they are; of those that were in memory elsewhere, all but the rows.
        asked: What was to be found out.
        found: Sums and samples.
        opened: The paths and what was said about them; None of rows in memory.
    """

    file: str
    source: Source
    asked: Asked
    found: Reading | LabelsRead
    opened: tuple[Any, Told] | None

    @property
    def n(self) -> int:
        """How many rows count."""
        return self.found.n if isinstance(self.found, Reading) else self.found.stream.n

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what reads the rows."""
        source = replace(self.source, start=_gone, start_labels=_gone, start_groups=None)
        return {**self.__dict__, "source": source}

    def rows(self) -> Source | None:
        """Return what reads the rows once more; None where they cannot be reached from here."""
        if self.source.start is not _gone:
            return None if self.source.once else self.source
        if self.opened is None or not all(each.is_file() for each in self.source.files):
            return None
        path, told = self.opened
        found = open_predictions(path, **told)
        same = [each for each in found if (each.model, each.split) == (self.source.model, self.source.split)]
        return replace(same[0], first_row=self.source.first_row, is_part=True) if same else None


def _gone() -> Any:
    raise InputError("Expected rows that can be read again, but they were in another process. Read the file there.")


def audit_part(
    source: Any,
    *,
    start: int = 0,
    model: str | None = None,
    positive: str | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    metrics: str | Sequence[str] | None = None,
    risk: str | float | Sequence[float] | None = None,
    on_rows: OnRows | None = None,
    **told: Unpack[Told],
) -> AuditPart:
    """Read some of the rows of which all together are to be audited.

    Args:
        source: A file, or what is in memory; see :func:`~surefoot.sources.files.open_predictions`.
        start: How many rows come before these, in other parts; with weights that are counts, rows that they stand for.
        model: Which one, where there are several.
        positive: Of two classes, the one whose probability is the risk.
        n_bins: Number of bins.
        level: Of the intervals.
        metrics: What to show; else the usual measures.
        risk: Shares of wrong answers that are allowed.
        on_rows: Called while reading.
        **told: What names and values do not tell; see :class:`~surefoot.sources.told.Told`.

    Returns:
        The part.

    Raises:
        InputError: If these rows cannot be a part of others.
    """
    if start < 0:
        raise InputError(f"Expected start ≥ 0, the number of rows that come before, but got {start}. Count them.")
    told["score_of"] = positive
    file = name_of(source)
    rows, held_out = choose_one(open_predictions(source, **told), model, file)
    if held_out is not None or rows.rows_digest:
        what = "samples of lm-evaluation-harness" if rows.rows_digest else "a calibration and a test set"
        raise InputError(f"Expected rows of one set in a part, but {file} holds {what}. Audit it as a whole.")
    rows = replace(rows, first_row=start, is_part=True)
    asked = Asked(n_bins, level, positive, metrics, risk)
    opened = (_plain(source), told) if is_path(source) else None
    if rows.form == "multilabel":
        check_labels_options(file, told, positive, risk)
        return AuditPart(file, rows, asked, collect_labels(rows, on_rows, n_bins), opened)
    asked.check(rows, file)
    slicing = slicing_of(rows)
    if slicing.notes:
        raise _too_many(rows.groups)
    return AuditPart(file, rows, asked, asked.step(rows, file, slicing)(rows, on_rows), opened)


def merge_parts(parts: Sequence[AuditPart], name: str | None = None) -> Audit:
    """Say what all parts together tell.

    Args:
        parts: In any order; no row may be in two of them.
        name: What to call all rows; else as the files.

    Returns:
        The audit of all rows.

    Raises:
        InputError: If there are none, or they are not parts of the same predictions, read in the same way.
    """
    parts = sorted(parts, key=lambda part: part.source.first_row)
    if not parts:
        raise InputError("Expected parts of an audit, but got none. Read them with audit_part.")
    first = parts[0]
    for other in parts[1:]:
        _check_same(first, other)
    names = list(dict.fromkeys(part.file for part in parts))
    file = name or (names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more")
    found = copy.deepcopy(first.found)
    for part in parts[1:]:
        found.merge(copy.deepcopy(part.found))  # type: ignore[arg-type]  # of the same form
    again = [part.rows() for part in parts]
    rows = [each for each in again if each is not None]
    ignored = copy.copy(first.source.ignored)  # its own, which no other walk counts in
    once = len(rows) < len(parts)
    told = {"where": file, "took": _took(parts), "notes": _notes(parts)}
    source = replace(first.source, **told, once=once, ignored=ignored)  # type: ignore[arg-type]  # by the names of its fields
    if isinstance(found, LabelsRead):
        asked = first.asked
        return finish_labels(source, found.finish(source), None, file, asked.n_bins, asked.level, asked.metrics)
    if any(len(values) > MOST_SLICES for values in found.slices.values()):
        raise _too_many(source.groups)
    return finish_audit(source, None, found.finish(source), None, (), first.asked, file, engine=_OneByOne(rows))


class _OneByOne:
    """Walks through the rows of one part after the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts = parts

    def walk(self, source: Source, step: Step[M], on_rows: OnRows | None = None) -> M:
        first, *rest = (HERE.walk(part, step) for part in self._parts)
        for other in rest:
            first.merge(other)
        return first


def _check_same(one: AuditPart, other: AuditPart) -> None:
    if one.asked != other.asked:
        raise InputError(
            f"Expected the same options for all parts, but {other.file} was read with others than {one.file}. Read all "
            "parts in the same way."
        )
    for name in _SAME:
        mine, its = getattr(one.source, name), getattr(other.source, name)
        if mine != its:
            raise InputError(
                f"Expected parts of the same predictions, but {name.replace('_', ' ')} is {_shown(mine)} in {one.file} "
                f"and {_shown(its)} in {other.file}. Say for all of them what they are."
            )
    if one.source.form != "choices" and one.source.n_classes != other.source.n_classes:
        raise InputError(
            f"Expected as many classes in all parts, but {one.file} has {one.source.n_classes} and {other.file} "
            f"{other.source.n_classes}. Bring them into one form."
        )


def _took(parts: Sequence[AuditPart]) -> str:
    """Say what was taken for what; rows of one part may have fewer choices than those of another."""
    found = parts[0].source.took
    counts = [int(n) for part in parts for pair in _CHOICES.findall(part.source.took) for n in pair if n]
    if not counts:
        return found
    low, high = min(counts), max(counts)
    return _CHOICES.sub(f"one of {low} to {high} choices" if low < high else f"one of {low} choices", found)


def _notes(parts: Sequence[AuditPart]) -> tuple[str, ...]:
    """Join the notes; what was left out for a gap is counted over all parts."""
    gaps = [part.source.gaps for part in parts if part.source.gaps is not None]
    own = {each.note() for each in gaps}
    notes = [note for part in parts for note in part.source.notes if note not in own]
    if gaps:
        every = copy.deepcopy(gaps[0])
        for other in gaps[1:]:
            every.merge(other)
        notes.insert(0, every.note())
    return tuple(dict.fromkeys(notes))


def _too_many(groups: Sequence[str]) -> InputError:
    return InputError(
        f"Expected groups of at most {MOST_SLICES} values in parts of an audit, but {', '.join(groups)} has more or is "
        "divided by what all rows hold. Group by another column, or audit all files at once."
    )


def _shown(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return repr(text[:60])


def _plain(source: Any) -> Any:
    return str(place(source)) if isinstance(source, str | Path) else [str(place(each)) for each in source]
