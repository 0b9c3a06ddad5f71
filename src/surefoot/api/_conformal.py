"""Prediction sets: classes that a row may be of, with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.api._audit import (
    HEADER,
    LABELS,
    LABELS_ARE,
    LOGITS,
    MODEL,
    PERCENT,
    PROBS,
    SCORES,
    SKIP_MISSING,
    WEIGHTS,
    WEIGHTS_ARE,
    in_memory,
    read_source,
)
from surefoot.api._text import as_text
from surefoot.errors import InputError
from surefoot.harmless import harmless_values

if TYPE_CHECKING:
    from surefoot.auditing import AppliedSets, FittedSets
    from surefoot.prediction_sets import PredictionSets, SetMeasures

    OnRows = Callable[[int, float | None], None]


@dataclass(frozen=True)
class SetsReport:
    """Prediction sets and what they did; printed, it is what ``surefoot conformal`` prints.

    Attributes:
        fitted: Everything that was found.
    """

    fitted: FittedSets

    @property
    def measures(self) -> SetMeasures:
        """Coverage of all rows, of classes and groups, and sizes, on rows that the sets were not fitted on."""
        return self.fitted.measures

    @property
    def prediction_sets(self) -> PredictionSets:
        """The sets to use."""
        return self.fitted.sets

    def sets(self, probs: Any = None, *, logits: Any = None) -> Any:
        """Return which classes are in the set of each row: True or False, shape ``(n, classes)``."""
        return self.fitted.sets.sets(probs, logits=logits)

    def names(self, probs: Any = None, *, logits: Any = None) -> list[list[str]]:
        """Return the names of the classes in each set, the likeliest first."""
        return self.fitted.sets.names(probs, logits=logits)

    def sentence(self) -> str:
        """Say in one line how often sets hold the true class and how large they are."""
        return self.fitted.sentence()

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        return self.fitted.to_json()

    def save(self, path: Path | str) -> Path:
        """Write the sets as ``.json``, to be applied to new rows, or the page as ``.html``."""
        if Path(path).suffix.lower() in (".html", ".htm"):
            return self.write_page(path)
        self.fitted.save(path)
        return Path(path)

    def write_page(self, path: Path | str, *, command: str | None = None) -> Path:
        """Write the page with coverage and sizes.

        Args:
            path: The file to write.
            command: What was typed.

        Returns:
            The path.
        """
        from surefoot.report.sets_page import write_sets_page

        return write_sets_page(self.to_json(), path, command=command)

    def parts(self) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints."""
        from surefoot.report.sets_tables import sets_text

        yield from sets_text(harmless_values(self.to_json()))

    def __str__(self) -> str:
        """Write what ``surefoot conformal`` prints."""
        return as_text(self.parts())

    def _repr_html_(self) -> str:
        from surefoot.report.sets_tables import sets_html

        return sets_html(self.to_json())


def conformal(
    source: Any = None,
    test: Annotated[
        str | Any | None, "Other predictions to measure on; else the file's test set, or half of it."
    ] = None,
    *,
    coverage: Annotated[float, "How often the true class is to be in the set."] = 0.9,
    method: Annotated[
        str | None, "lac, aps or raps; raps:k_reg=5,lam=0.01; your own as module:function. Default: the smallest sets."
    ] = None,
    per_class: Annotated[bool, "A threshold for each class, so that every class is covered."] = False,
    calibrator: Annotated[str | Any | None, "A saved calibrator, fitted on other rows, that comes first."] = None,
    group: Annotated[
        str | Sequence[str] | Mapping[str, Any], "Column that divides the rows into groups; can be given again."
    ] = (),
    logits: Annotated[bool | Any, LOGITS] = False,
    probs: Annotated[bool | Any, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | Any | None, LABELS] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    weights: Annotated[str | Any | None, WEIGHTS] = None,
    weights_are: Annotated[str | None, WEIGHTS_ARE] = None,
    skip_missing: Annotated[bool, SKIP_MISSING] = False,
    header: Annotated[bool | None, HEADER] = None,
    model: Annotated[str | None, MODEL] = None,
    level: Annotated[float, "Level of the intervals."] = 0.95,
    class_names: Sequence[str] = (),
    on_rows: OnRows | None = None,
) -> SetsReport:
    """Fit prediction sets, and say on other rows how often they hold the true class and how large they are.

    Args:
        source: Rows to fit on: a file, a DataFrame, arrays by name; or left out, with ``probs`` or ``logits``. Of a
            file with a calibration and a test set, sets are fitted on the first and measured on the second.
        test: Other rows to measure on, as a file, a DataFrame or arrays by name. Without it, half of one set of rows is
            measured on, with sets fitted on the other half; those to use are fitted on all.
        coverage: How often the true class is to be in the set.
        method: ``lac``, ``aps`` or ``raps``, with options; else the one with the smallest sets on rows to fit on.
        per_class: Take a threshold for each class from its own rows, so that every class is covered.
        calibrator: A calibrator or its file, fitted on other rows, that probabilities go through first.
        group: Columns that divide the rows; beside ``probs`` or ``logits``, arrays by name.
        logits: Logits, one row per example; or True: the scores in the source are logits.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The true classes, beside ``probs`` or ``logits``; or the name of their column.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        weights: How much each row counts, as an array or the name of a column; False: all count alike.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many independent rows it stands.
        skip_missing: Leave rows with a gap out, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        model: Which one, where a file holds several.
        level: Level of the intervals.
        class_names: One per class, beside ``probs`` or ``logits``.
        on_rows: Called while reading.

    Returns:
        The report: ``print`` it, ``sets(probs)`` makes sets of new rows, ``save("sets.json")`` keeps them and
        ``save("page.html")`` writes the page.

    Raises:
        SplitError: If rows are used twice.
        InputError: If the predictions cannot be read.

    Example:
        >>> import surefoot as sf
        >>> rows = {"probs": [[0.9, 0.1], [0.6, 0.4]] * 100, "labels": [0, 1] * 100}
        >>> report = sf.conformal(**rows, method="lac", class_names=["cat", "dog"])
        >>> report.measures.coverage.estimate, report.names([[0.8, 0.2], [0.55, 0.45]])
        (1.0, [['cat'], ['cat', 'dog']])
    """
    from surefoot.auditing import conformal as fit

    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are, group, class_names),
        weights=weights,
        weights_are=weights_are,
        skip_missing=skip_missing,
        header=header,
    )
    other = None if test is None else in_memory(test)
    return SetsReport(
        fit(
            source,
            other,
            coverage=coverage,
            method=method,
            per_class=per_class,
            calibrator=calibrator,
            model=model,
            level=level,
            on_rows=on_rows,
            **told,
        )
    )


def apply_sets(
    source: Path | str,
    sets: Path | str,
    out: Path | str,
    *,
    logits: bool = False,
    probs: bool = False,
    percent: bool = False,
    scores: str | Sequence[str] = (),
    labels: str | None = None,
    labels_are: str | None = None,
    weights: str | bool | None = None,
    weights_are: str | None = None,
    skip_missing: bool = False,
    header: bool | None = None,
    model: str | None = None,
    trust: bool = False,
    on_rows: OnRows | None = None,
) -> AppliedSets:
    """Add a prediction set to every row of a file; never to the rows that the sets were fitted on.

    Args:
        source: The file; labels are not needed.
        sets: As ``conformal(...).save("sets.json")`` wrote them.
        out: The file to write: the same columns, and ``set`` and ``set_size``.
        logits: The scores are logits, where names and values do not tell.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The array or column of labels, where its name does not tell.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        weights: The column that says how much a row counts, where coverage is measured; False: all count alike.
        weights_are: ``importance``, how much a row represents, or ``counts``, for how many independent rows it stands.
        skip_missing: Refused: every row gets a set, or none does.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        model: Which one, where a file holds several.
        trust: Import a score of others that the sets name.
        on_rows: Called while reading.

    Returns:
        How large sets are and, where there are labels, how often they hold the true class.
    """
    from surefoot.auditing import apply_sets as apply

    if skip_missing:
        raise InputError("Expected a set for every row, but --skip-missing would leave some out. Correct them first.")
    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are),
        weights=weights,
        weights_are=weights_are,
        header=header,
    )
    return apply(sets, source, out, model=model, trust=trust, on_rows=on_rows, **told)


def load_sets(path: Path | str, *, trust: bool = False) -> PredictionSets:
    """Read prediction sets that were saved.

    Args:
        path: A ``.json`` file.
        trust: Import a score of others that it names.

    Returns:
        The sets: ``sets(probs)`` says which classes are in them, ``names(probs)`` what these are called.
    """
    from surefoot.prediction_sets import load_sets as load

    return load(path, trust=trust)
