"""Is a model still good enough, as far as the rows can tell?"""

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
    read_source,
)
from surefoot.api._text import as_text
from surefoot.errors import InputError
from surefoot.harmless import harmless_values
from surefoot.places import place

if TYPE_CHECKING:
    from surefoot.auditing import Gate


NO_WEIGHTS = "Count all rows alike, whatever column is called weight."


@dataclass(frozen=True)
class CheckReport:
    """What a gate found; printed, it is what ``surefoot check`` prints.

    Attributes:
        gate: Every check with its interval.
    """

    gate: Gate

    @property
    def broken(self) -> bool:
        """Whether a check is broken: a limit, or being no worse than the baseline, by more than chance explains."""
        return self.gate.broken

    def sentence(self) -> str:
        """Say in one line whether the gate holds."""
        return self.gate.sentence()

    def save_baseline(self, path: Path | str) -> Path:
        """Keep these predictions as the baseline of later checks.

        Args:
            path: A ``.json`` file.

        Returns:
            The path.
        """
        self.gate.save_baseline(path)
        return place(path)

    def to_json(self) -> dict[str, Any]:
        """Write everything for machines: fractions, not percent."""
        return self.gate.to_json()

    def to_markdown(self) -> str:
        """Write the table for a pull request."""
        from surefoot.report.gate_tables import gate_markdown

        return gate_markdown(self.to_json())

    def parts(self) -> Iterator[Any]:
        """Lay everything out for a terminal: tables and texts that rich prints."""
        from surefoot.report.gate_tables import gate_text

        yield from gate_text(harmless_values(self.to_json()))

    def __str__(self) -> str:
        """Write what ``surefoot check`` prints."""
        return as_text(self.parts())


def check(
    source: Any = None,
    *,
    max_ece: Annotated[float | None, "ECE at most, such as 0.05; of two classes that of the risk."] = None,
    max_gap: Annotated[float | None, "|confidence − accuracy| at most; of two classes |risk − event rate|."] = None,
    max_nll: Annotated[float | None, "NLL at most, in nats."] = None,
    min_accuracy: Annotated[float | None, "Accuracy at least, such as 0.9."] = None,
    max: Annotated[str | Sequence[str] | Mapping[str, float], "NAME=VALUE: any metric at most; may be repeated."] = (),
    min: Annotated[str | Sequence[str] | Mapping[str, float], "NAME=VALUE: any metric at least; may be repeated."] = (),
    baseline: Annotated[str | Path | None, "What --save-baseline wrote: be no worse than that."] = None,
    compare: Annotated[
        str | Sequence[str] | None, "Metrics to compare with the baseline: accuracy,ece,nll and those with a limit."
    ] = None,
    logits: Annotated[bool | Any, LOGITS] = False,
    probs: Annotated[bool | Any, PROBS] = False,
    percent: Annotated[bool, PERCENT] = False,
    scores: Annotated[str | Sequence[str], SCORES] = (),
    labels: Annotated[str | Any | None, LABELS] = None,
    labels_are: Annotated[str | None, LABELS_ARE] = None,
    no_weights: Annotated[bool, NO_WEIGHTS] = False,
    skip_missing: Annotated[bool, SKIP_MISSING] = False,
    header: Annotated[bool | None, HEADER] = None,
    model: Annotated[str | None, MODEL] = None,
    positive: Annotated[
        str | int | None, "Of two classes, the one whose probability is the risk. Default: by name, else 1."
    ] = None,
    bins: Annotated[int, "Bins of confidence."] = 15,
    level: Annotated[float, "How often a gate that nothing should break holds, at least."] = 0.95,
    class_names: Sequence[str] = (),
    on_rows: Callable[[int, float | None], None] | None = None,
) -> CheckReport:
    """Hold predictions against limits and a baseline; broken only by what sampling noise does not explain.

    Args:
        source: The path of a file, a DataFrame, or arrays by name; or left out, with ``probs`` or ``logits`` as arrays.
        max_ece: The largest ECE; of two classes that of the risk.
        max_gap: The largest |confidence − accuracy|; of two classes |mean risk − event rate|.
        max_nll: The largest NLL.
        min_accuracy: The smallest accuracy.
        max: Limits of other metrics by name, or ``"NAME=VALUE"``.
        min: Likewise.
        baseline: A file that ``save_baseline`` wrote. Where it is of the same examples, they are compared one by one.
        compare: Metrics to compare with the baseline; else accuracy, ECE, NLL and those with a limit.
        logits: Logits, one row per example; or True: the scores in the source are logits.
        probs: Likewise probabilities.
        percent: The scores are probabilities in percent.
        scores: The array or columns with the scores, where their names do not tell.
        labels: The true classes, beside ``probs`` or ``logits``; or the name of their column.
        labels_are: ``from-0``, ``from-1`` or ``names``, where labels could be two things.
        no_weights: Count all rows alike, whatever column is called weight; weights are refused otherwise.
        skip_missing: Leave rows with a gap in a score or the label out, instead of refusing them.
        header: Whether the first line of a ``.csv`` holds names; None: its cells tell.
        model: Which one, where a file holds several.
        positive: Of two classes, the name or number of the one whose probability is the risk.
        bins: Bins of confidence.
        level: How often a gate that nothing should break holds, at least, whatever the number of checks.
        class_names: One per class, beside ``probs`` or ``logits``.
        on_rows: Called while reading.

    Returns:
        The report: ``print`` it, or take ``broken``, ``to_markdown()``, ``to_json()`` and ``save_baseline(path)``.

    Raises:
        InputError: If the predictions cannot be read, or a limit makes no sense.

    Example:
        >>> import surefoot as sf
        >>> probs, labels = [[0.9, 0.05, 0.05]] * 100, [0, 1] * 50  # 90 % sure, 50 % right
        >>> sf.check(probs=probs, labels=labels, max_ece=0.05).broken
        True
        >>> sf.check(probs=probs[:4], labels=labels[:4], max_ece=0.05).broken  # which four rows cannot tell
        False
    """
    from surefoot.auditing import check as hold_against
    from surefoot.auditing import read_limits
    from surefoot.metric_keys import split_metrics

    source, told = read_source(
        *(source, logits, probs, percent, scores, labels, labels_are, (), class_names),
        weights=False if no_weights else None,
        skip_missing=skip_missing,
        header=header,
    )
    plain: dict[str, float | None] = {"ece": max_ece, "confidence_gap": max_gap, "nll": max_nll}
    limits = [
        *read_limits("max", {key: value for key, value in plain.items() if value is not None}),
        *read_limits("min", {} if min_accuracy is None else {"accuracy": min_accuracy}),
        *read_limits("max", max),
        *read_limits("min", min),
    ]
    names = None if compare is None else split_metrics(compare)
    if names == []:
        raise InputError("Expected metrics with --compare, but got none. Leave it out for the usual ones.")
    gate = hold_against(
        source,
        limits,
        baseline=baseline,
        compare=names,
        model=model,
        positive=None if positive is None else str(positive),
        n_bins=bins,
        level=level,
        on_rows=on_rows,
        **told,
    )
    return CheckReport(gate)
