"""How good are predictions on rows that nobody has labelled?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from surefoot.api._audit import LABELS_ARE, LOGITS, MODEL, PERCENT, PROBS, SCORES, in_memory, read_source
from surefoot.api._check import NO_WEIGHTS
from surefoot.api._text import as_text
from surefoot.errors import InputError
from surefoot.harmless import harmless_values

if TYPE_CHECKING:
    from surefoot.auditing import Estimate
    from surefoot.metrics.interval import Interval


@dataclass(frozen=True)
class EstimateReport:
    """What a reference says about new rows; printed, it is what ``surefoot estimate`` prints.

    Attributes:
        estimate: All that was found.
    """

    estimate: Estimate

    @property
    def measures(self) -> dict[str, Interval]:
        """Every measure with its interval, by name; fractions."""
        return self.estimate.measures

    def sentence(self) -> str:
        """Say in one line what to expect on the new rows."""
        return self.estimate.sentence()

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        return self.estimate.to_json()

    def parts(self) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints."""
        from surefoot.report.estimate_tables import estimate_text

        yield from estimate_text(harmless_values(self.to_json()))

    def __str__(self) -> str:
        """Write what ``surefoot estimate`` prints."""
        return as_text(self.parts())


def estimate(
    new: Any,
    *,
    reference: Annotated[str | Path | Any, "Predictions of the same model with labels."] = None,
    logits: Annotated[bool, LOGITS] = False,
    probs: Annotated[bool, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | None, "Column or array with the reference's true classes. Default: by its name."] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    no_weights: Annotated[bool, NO_WEIGHTS] = False,
    model: Annotated[str | None, MODEL] = None,
    positive: Annotated[
        str | int | None, "Of two classes, the one whose probability is the risk. Default: by name, else 1."
    ] = None,
    bins: Annotated[int, "Bins of confidence."] = 15,
    level: Annotated[float, "Level of the intervals, and of the test whether the reference fits."] = 0.95,
    on_rows: Callable[[int, float | None], None] | None = None,
) -> EstimateReport:
    """Estimate accuracy and calibration on new rows without labels, if only class frequencies have changed.

    Args:
        new: Scores without labels: the path of a file, a DataFrame, arrays by name, or an array.
        reference: Predictions of the same model with labels: a file, a DataFrame or arrays by name.
        logits: The scores are logits.
        probs: The scores are probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The column or array with the reference's true classes.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        no_weights: Count all rows alike, whatever column is called weight; weights are refused otherwise.
        model: Which one, where a file holds several.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        bins: Bins of confidence.
        level: Level of the intervals; and 1 − level is how often a reference that fits is refused.
        on_rows: Called while reading the reference.

    Returns:
        The report: ``print`` it, or take ``measures`` and ``to_json()``.

    Raises:
        ShiftError: If the new scores are distributed as no class frequencies would explain.
        InputError: If one of them cannot be read, or has too few rows.

    Example:
        >>> import surefoot as sf
        >>> sick, well = [0.1, 0.9], [0.8, 0.2]
        >>> probs, labels = [sick] * 80 + [well] * 20 + [sick] * 20 + [well] * 80, [1] * 100 + [0] * 100
        >>> report = sf.estimate([sick] * 125 + [well] * 375, reference={"probs": probs, "labels": labels})
        >>> round(report.measures["event_rate"].estimate, 3)  # .8 s + .2 (1 − s) = 125 / 500
        0.083
    """
    from surefoot.auditing import estimate as from_reference

    if reference is None:
        raise InputError("Expected a labelled reference, but got none. Say --reference labelled.npz.")
    source, told = read_source(
        *(reference, logits, probs, percent, scores, labels, labels_are), weights=False if no_weights else None
    )
    found = from_reference(
        in_memory(new) if hasattr(new, "columns") else new,
        source,
        model=model,
        positive=None if positive is None else str(positive),
        n_bins=bins,
        level=level,
        on_rows=on_rows,
        **told,
    )
    return EstimateReport(found)
