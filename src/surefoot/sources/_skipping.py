"""Rows with a gap left out, and said."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from surefoot.errors import InputError
from surefoot.sources.source import Raw, Source


def without_gaps(source: Source) -> Source:
    """Leave out rows in which a score, the label or the weight is missing.

    All rows are looked through once to say how many these are, so the notes are right before a row is used.

    Args:
        source: As it stands in the file.

    Returns:
        The same without these rows, with a note that counts them by column.

    Raises:
        InputError: If no row is left.
    """
    gaps = source.count_gaps()
    if not (note := gaps.note()):
        return replace(source, gaps=gaps)
    if gaps.leaves_nothing:
        raise InputError(
            f"Expected some rows without a gap, but {source.where} has none: {note} Fill in what is missing."
        )

    def start() -> Generator[Raw]:
        done = 0
        with closing(source.start()) as reading:
            for raw in reading:
                rows = raw.numbered(done)
                done = int(rows[-1]) + 1 if len(rows) else done
                bad, no_label, no_weight = source.gaps_in(raw)
                keep = ~(bad.any(axis=1) | no_label | no_weight)
                if keep.all():
                    yield replace(raw, rows=rows)
                elif keep.any():
                    yield raw.chosen(keep, rows)

    return replace(source, start=start, notes=(note, *source.notes), gaps=gaps)
