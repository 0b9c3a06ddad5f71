"""Can these predictions be trusted?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.api._text import as_text
from surefoot.errors import InputError

if TYPE_CHECKING:
    from surefoot.auditing import Audit, AuditComparison
    from surefoot.metrics.interval import Interval
    from surefoot.metrics.verdict import CalibrationVerdict

LOGITS = "The scores are logits, where names and values do not tell."
PROBS = "The scores are probabilities, where names and values do not tell."
PERCENT = "The scores are probabilities in percent."
SCORES = "Array or column with the scores; again for a column per class. Default: by their names."
LABELS = "Column or array with the true classes; for .npy their file. Default: by its name."
LABELS_ARE = (
    "What labels mean, where it could be two things: class numbers from-0 or from-1, or names. Says also that the file "
    "is right as it is."
)
FORM = (
    "What rows are: multiclass, multilabel, choices (of their own in every row) or confidence (and whether it was "
    "right). Default: by names and values."
)
NORMALISE = "Of lm-evaluation-harness: log-likelihoods as they are (none), or by length or bytes of the choice."
IGNORE_INDEX = "Label of tokens or pixels that do not count. Default: -100."
CLASS_AXIS = "Which axis is that of the classes, where shapes do not tell: 1 of (B, C, H, W), -1 of (B, T, V)."
MODEL = "Which model, where a file holds several."


@dataclass(frozen=True)
class AuditReport:
    """What an audit found; printed, it is what ``surefoot audit`` prints.

    Attributes:
        audits: One per model, or the two that are compared.
        comparison: Which of two is better calibrated; None where one was audited.
    """

    audits: tuple[Audit, ...]
    comparison: AuditComparison | None = None

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

    def sentence(self) -> str:
        """Say in one line what a person can act on."""
        return self.audit.sentence() if self.comparison is None else self.comparison.sentence()

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        comparison = None if self.comparison is None else self.comparison.to_json()
        return {"audits": [each.to_json() for each in self.audits], "comparison": comparison}

    def parts(self) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints."""
        from surefoot.report.audit_tables import audit_text

        found = self.to_json()
        yield from audit_text(found["audits"], found["comparison"])

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
        return write_audit_page(
            found["audits"],
            path,
            comparison=found["comparison"],
            command=command,
            repair_commands=commands,
            repair_notes=notes,
        )

    def __str__(self) -> str:
        """Write what ``surefoot audit`` prints."""
        return as_text(self.parts())


def audit(
    source: Any = None,
    other: Any = None,
    *,
    logits: Annotated[bool | Any, LOGITS] = False,
    probs: Annotated[bool | Any, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | Any | None, LABELS] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    group: Annotated[
        str | Sequence[str] | Mapping[str, Any], "Column that divides the rows into slices; can be given again."
    ] = (),
    form: Annotated[str | None, FORM] = None,
    normalise: Annotated[str | None, NORMALISE] = None,
    ignore_index: Annotated[int | None, IGNORE_INDEX] = None,
    class_axis: Annotated[int | None, CLASS_AXIS] = None,
    model: Annotated[str | None, MODEL] = None,
    positive: Annotated[
        str | int | None, "Of two classes, the one whose probability is the risk. Default: by name, else 1."
    ] = None,
    bins: Annotated[int, "Bins of confidence."] = 15,
    level: Annotated[float, "Level of the intervals."] = 0.95,
    metrics: Annotated[
        str | Sequence[str] | None, "What to show: ece,nll,brier; ece:n_bins=30; your own as module:function."
    ] = None,
    class_names: Sequence[str] = (),
    on_rows: Callable[[int, float | None], None] | None = None,
) -> AuditReport:
    """Return whether predictions can be trusted, with error bars, and what would repair them.

    Args:
        source: The path of a file, a DataFrame, arrays by name, or batches: pairs of logits and labels; or left out,
            with ``probs`` or ``logits`` as arrays.
        other: A second one with predictions for the same examples, to compare with.
        logits: Logits, one row per example; or True: the scores in the source are logits.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The true classes, beside ``probs`` or ``logits``; or the name of their column.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        group: Columns that divide the rows into slices; beside ``probs`` or ``logits``, arrays by name.
        form: ``multiclass``, ``multilabel``, ``choices`` or ``confidence``, where names and values do not tell.
        normalise: Of files of lm-evaluation-harness ``none``, ``length`` or ``bytes``.
        ignore_index: The label of tokens or pixels that do not count; −100 where nothing is said.
        class_axis: Of arrays with more than two axes that of the classes, where shapes do not tell.
        model: Audit this one only, of several in a file.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        bins: Bins of confidence.
        level: Level of the intervals.
        metrics: What to show beside the verdict; else the usual measures.
        class_names: One per class, beside ``probs`` or ``logits``.
        on_rows: Called while reading, with the rows read and their share of all.

    Returns:
        The report: ``print`` it, or take ``verdict``, ``measures``, ``to_json()`` and ``write_page(path)``.

    Raises:
        InputError: If the predictions cannot be read or do not tell what they are.

    Example:
        >>> import surefoot as sf
        >>> report = sf.audit(probs=[[0.9, 0.1], [0.8, 0.2]] * 50, labels=[0, 1] * 50)
        >>> report.verdict.accuracy.estimate, round(report.verdict.gap.estimate, 4)
        (0.5, 0.35)
    """
    from surefoot.auditing import audit as audit_models
    from surefoot.auditing import compare_audits

    source, told = read_source(source, logits, probs, percent, scores, labels, labels_are, group, class_names)
    told |= read_form(form, normalise, ignore_index, class_axis)
    options: dict[str, Any] = {**told, "model": model, "positive": None if positive is None else str(positive)}
    options |= {"n_bins": bins, "level": level, "metrics": metrics, "on_rows": on_rows}
    if other is None:
        return AuditReport(tuple(audit_models(source, **options)))
    both = compare_audits(source, in_memory(other), **options)
    return AuditReport((both.a, both.b), both)


def read_source(
    source: Any,
    logits: Any,
    probs: Any,
    percent: bool,
    scores: str | Sequence[str],
    labels: Any,
    labels_are: str | None,
    group: Any = (),
    class_names: Sequence[str] = (),
) -> tuple[Any, dict[str, Any]]:
    """Return the predictions, and what was said about them as the auditing room takes it.

    Raises:
        InputError: If there are none, or several things are said at once.
    """
    from surefoot.auditing import check_meaning

    arrays = {name: value for name, value in (("logits", logits), ("probs", probs)) if not isinstance(value, bool)}
    said = [name for name, value in (("logits", logits), ("probs", probs), ("percent", percent)) if value is True]
    kinds = {"probs" if kind == "percent" and "probs" in arrays else kind for kind in (*arrays, *said)}
    if len(kinds) > 1 or len(said) > 1:
        raise InputError("Expected one of --logits, --probs and --percent, but got two. Leave one out.")
    meaning = None if labels_are is None else check_meaning(labels_are, "--labels-are")
    names = (scores,) if isinstance(scores, str) else tuple(scores)
    groups = (group,) if isinstance(group, str) else tuple(group)
    told = {"kind": said[0] if said else None, "scores": names, "labels": labels, "labels_are": meaning}
    told |= {"groups": groups} if groups else {}
    if not arrays:
        if source is None:
            raise InputError("Expected predictions, but got none. Pass a file, a DataFrame, or probs= and labels=.")
        return in_memory(source), told
    if source is not None or labels is None:
        raise InputError(
            "Expected probs= or logits= with labels= and nothing else, or a file or DataFrame. Pass one of these."
        )
    (name,) = arrays
    told |= {"kind": said[0] if said else name, "scores": (name,), "labels": "labels"}
    return hold_arrays({name: arrays[name], "labels": labels, **dict(group or {})}, class_names), told


def read_form(
    form: str | None, normalise: str | None = None, ignore_index: int | None = None, class_axis: int | None = None
) -> dict[str, Any]:
    """Return what was said about the form of predictions, as the auditing room takes it.

    Raises:
        InputError: If there is no such form, or no such way to normalise.
    """
    from surefoot.auditing import check_form, check_normalise

    said = {
        "form": None if form is None else check_form(form, "--form"),
        "normalise": None if normalise is None else check_normalise(normalise),
        "ignore_index": ignore_index,
        "class_axis": class_axis,
    }
    return {key: value for key, value in said.items() if value is not None}


def in_memory(source: Any) -> Any:
    """Read what is in memory once; a path stays a path."""
    from surefoot.auditing import hold, is_batches

    return source if isinstance(source, str | Path) or is_batches(source) else hold(source)


def hold_arrays(arrays: Mapping[str, Any], class_names: Sequence[str]) -> Any:
    """Read arrays by name, with the names of the classes."""
    from surefoot.auditing import hold

    return hold({**arrays, "class_names": list(class_names)} if class_names else arrays)
