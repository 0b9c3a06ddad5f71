"""What an audit found, for people, notebooks and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surefoot.api._frames import MEASURES, frame, group_rows, measure_rows, write_json, write_rows
from surefoot.api._text import as_text
from surefoot.errors import InputError
from surefoot.harmless import harmless_values
from surefoot.places import place, written

if TYPE_CHECKING:
    from surefoot.auditing import Audit, AuditComparison, AuditPart, Ranking, Threshold
    from surefoot.metrics.interval import Interval
    from surefoot.metrics.verdict import CalibrationVerdict


@dataclass(frozen=True)
class AuditReport:
    """What an audit found; printed, it is what ``surefoot audit`` prints.

    Attributes:
        audits: One per model, in the order in which they were given.
        comparison: Of two models of the same examples, which is better; else None.
        ranking: Of more than two, which is best and which cannot be told apart; else None.
    """

    audits: tuple[Audit, ...]
    comparison: AuditComparison | None = None
    ranking: Ranking | None = None

    @classmethod
    def merge(cls, parts: Sequence[AuditPart], name: str | None = None) -> AuditReport:
        """Make the report on all rows from what :func:`audit_part` found in parts of them.

        Args:
            parts: In any order; no row may be in two of them.
            name: What to call all rows; else as the files.

        Returns:
            The report.
        """
        from surefoot.auditing import Audit

        return cls((Audit.merge(parts, name),))

    @property
    def audit(self) -> Audit:
        """The only audit; an error where there are several."""
        if len(self.audits) > 1:
            names = ", ".join(each.model or each.file for each in self.audits)
            raise InputError(f"Expected one audit, but there are {len(self.audits)}: {names}. Go through .audits.")
        return self.audits[0]

    @property
    def verdict(self) -> CalibrationVerdict:
        """Over-confident, under-confident, mixed or calibrated, with the numbers that say so."""
        return self.audit.verdict

    @property
    def measures(self) -> dict[str, Interval]:
        """Every measure with its interval, by name; fractions."""
        return self.audit.measures

    @property
    def threshold(self) -> Threshold:
        """The confidence above which to act, for the first risk that was said to be allowed."""
        if not self.audit.thresholds:
            raise InputError("Expected a risk that is allowed, but got none. Say risk=0.02.")
        return self.audit.thresholds[0]

    def sentence(self) -> str:
        """Say in one line what a person can act on."""
        return (self.ranking or self.comparison or self.audit).sentence()

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        comparison = None if self.comparison is None else self.comparison.to_json()
        ranking = None if self.ranking is None else self.ranking.to_json()
        return {"audits": [each.to_json() for each in self.audits], "comparison": comparison, "ranking": ranking}

    def parts(self) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints."""
        from surefoot.report.audit_tables import audit_text

        found = harmless_values(self.to_json())
        yield from audit_text(found["audits"], found["comparison"], found["ranking"])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row per model and measure: estimate, low, high, level, note.

        Fractions; NaN where a measure has no interval, and the note says why.
        """
        return frame(measure_rows(self.names, self.audits), MEASURES)

    def groups_frame(self) -> Any:
        """Return a pandas DataFrame with a row per model and slice, after the correction for all slices.

        ``gap`` is confidence − accuracy, of two classes mean risk − event rate, with an interval that holds for all
        slices at once.
        """
        return frame(group_rows(self.names, self.audits))

    @property
    def names(self) -> list[str]:
        """What the models are called, one per audit."""
        if self.ranking is not None:
            return list(self.ranking.names)
        return [each.model or each.file for each in self.audits]

    def save(self, path: Path | str) -> Path:
        """Write the report: a page as ``.html``, everything as ``.json``, the measures as ``.csv``.

        Args:
            path: The file to write.

        Returns:
            The path.

        Raises:
            InputError: If the name ends otherwise, or another file is there.
        """
        path = place(path)
        ending = path.suffix.lower()
        if path.is_dir() or ending not in (".html", ".json", ".csv"):
            raise InputError(f"Expected a file name that ends in .html, .json or .csv, but got {str(path)!r}.")
        if ending == ".html":
            return self.write_page(path)
        with written(path) as here:
            if ending == ".json":
                write_json(self.to_json(), here)
            else:
                write_rows(measure_rows(self.names, self.audits), here)
        return path

    def write_page(
        self, path: Path | str, *, command: str | None = None, repairs: Sequence[tuple[str, str]] = ()
    ) -> Path:
        """Write the page with the reliability diagrams.

        Args:
            path: The file to write.
            command: What was typed.
            repairs: For each audit what to type next, and what must be known about it.

        Returns:
            The path.
        """
        from surefoot.report.audit_page import write_audit_page

        found = self.to_json()
        commands, notes = zip(*repairs, strict=True) if repairs else ((), ())
        with written(path) as here:
            write_audit_page(
                found["audits"],
                here,
                comparison=found["comparison"],
                ranking=found["ranking"],
                command=command,
                repair_commands=commands,
                repair_notes=notes,
            )
        return place(path)

    def __str__(self) -> str:
        """Write what ``surefoot audit`` prints."""
        return as_text(self.parts())

    def _repr_html_(self) -> str:
        """Show the report in a notebook, also in one that is not trusted."""
        from surefoot.report.notebook import audit_html

        found = self.to_json()
        return audit_html(found["audits"], found["comparison"], found["ranking"])
