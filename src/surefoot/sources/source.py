"""Rows of a predictions file, some at a time, and what every one of them must be."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surefoot.errors import InputError
from surefoot.schema import Form
from surefoot.sources._rows import Gaps, StrangeLabels
from surefoot.sources._values import check_scores, check_weights, from_percent
from surefoot.sources.choices import check_choices, check_places, counts_of
from surefoot.sources.labels import Array, Meaning, as_numbers, missing_labels, one_per_row, true_or_not
from surefoot.sources.names import Kind, Split
from surefoot.sources.weights import Counting, StrangeWeights, are_valid, no_weight_at_all

if TYPE_CHECKING:
    from surefoot.sources._tokens import Ignored

VALUES_AT_ONCE = 1 << 18  # rows × classes per chunk: a few megabytes, whatever the file's size
ROWS_AT_ONCE = 32  # at least, also of vocabularies, so that steps of Python do not count
WIDE_AT_ONCE = 1 << 21  # but never more values than this for their sake
SUM_TOLERANCE = 1e-3  # a softmax in half precision is off by almost this much


@dataclass(frozen=True)
class Raw:
    """Consecutive rows as they stand in the file: a gap in the scores is NaN, labels are whatever they are."""

    scores: Array
    labels: Array
    groups: Mapping[str, Array] = field(default_factory=dict)
    share: float | None = None
    weights: Array | None = None
    counts: Array | None = None
    """How many choices each row has, where lists of different lengths were read."""
    rows: Array | None = None
    """Numbers of the rows among all that were read, where some were left out; else they follow each other."""

    def numbered(self, start: int) -> Array:
        """Return the number of each row, where ``start`` came before."""
        return np.arange(start, start + len(self.labels)) if self.rows is None else self.rows

    def chosen(self, kept: Array, rows: Array) -> Raw:
        """Return some of the rows, whose numbers are known."""
        groups = {name: values[kept] for name, values in self.groups.items()}
        weights = None if self.weights is None else self.weights[kept]
        counts = None if self.counts is None else self.counts[kept]
        return Raw(self.scores[kept], self.labels[kept], groups, self.share, weights, counts, rows[kept])


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows: scores (n, classes), labels (n,) and one array per group column.

    Of ``multilabel`` sources labels are (n, classes).
    """

    scores: Array
    labels: Array
    groups: Mapping[str, Array] = field(default_factory=dict)
    share: float | None = None
    """How much of the file has been read after this chunk, in [0, 1]."""
    weights: Array | None = None
    """How much each row counts; None where all count alike."""
    rows: Array = field(default_factory=lambda: np.empty(0, np.int64))
    """Number of each row among all rows of the predictions, which decides what is drawn for it."""


@dataclass(frozen=True)
class Source:
    """One model's predictions in a file, to be read as often as need be without ever holding all of them.

    Attributes:
        model: Its name within the file; empty where there is one.
        split: Of which split the rows are; empty where the file does not say.
        took: What was taken for what, for people.
        kind: Logits or probabilities; None until the values have told.
        class_names: One per class; empty if the file has none.
        where: The file, for messages.
        columns: What the scores' columns, or their array, and the labels are called.
        start: Starts reading from the first row.
        start_labels: The same, the labels alone.
        meaning: What the labels mean; None until that is settled.
        percent: Whether the scores are probabilities in percent.
        settled: Whether somebody said what the labels mean: the user, or the file.
        notes: What a reader of the results must know about the file.
        form: What rows and columns are; see :class:`~surefoot.schema.Predictions`.
        weights: The array or column that says how much a row counts; None where all count alike.
        n_classes: How many columns of scores the first rows have; 0 until that is known.
        tokens: Whether rows are the tokens or pixels of arrays with more than two axes.
        ignored: Counts the rows that were left out because their label does not count.
        once: Whether the rows can be read only once.
        rows_digest: What the rows are of, such as the numbers of the questions; empty where nothing says so.
        groups: What divides the rows into slices, as it was asked for.
        start_groups: Starts reading the columns that this takes, alone; None where that is no faster.
        weights_are: How much a row represents, or for how many independent rows it stands.
        first_row: How many rows of the same predictions come before these, in other parts.
        gaps: What was left out for a gap; None where nothing was to be left out.
        files: What the rows lie in, where each file can be read on its own; empty where all are read together.
        is_part: Whether there are other rows, so that in these nothing need count.
    """

    model: str
    split: Split
    took: str
    kind: Kind | None
    class_names: tuple[str, ...]
    where: str
    columns: tuple[tuple[str, ...], str]
    start: Callable[[], Generator[Raw]]
    start_labels: Callable[[], Generator[Array]]
    meaning: Meaning | None = None
    percent: bool = False
    settled: bool = False
    notes: tuple[str, ...] = ()
    form: Form = "multiclass"
    weights: str | None = None
    n_classes: int = 0
    rows_digest: str = ""
    tokens: bool = False
    ignored: Ignored | None = None
    once: bool = False
    groups: tuple[str, ...] = ()
    start_groups: Callable[[], Generator[Mapping[str, Array]]] | None = None
    weights_are: Counting = "importance"
    first_row: int = 0
    gaps: Gaps | None = None
    files: tuple[Path, ...] = ()
    is_part: bool = False

    @property
    def name(self) -> str:
        """Model and split in words; empty where the file names neither."""
        return ", ".join(word for word in (self.model, self.split) if word)

    def chunks(self) -> Generator[Chunk]:
        """Read all rows, some at a time."""
        row, width, here = self.first_row, None, self.first_row
        total, anything = 0.0, False
        with closing(self.start()) as reading:
            for raw in reading:
                scores = self.scores(raw, row)
                rows = raw.numbered(here - self.first_row) + self.first_row
                here = int(rows[-1]) + 1 if len(rows) else here
                if self.form == "multilabel":
                    true = true_or_not(raw.labels, scores.shape, row, self.where)
                    weights = self.weights_of(raw)
                    total += 1.0 if weights is None else float(weights.sum())
                    yield Chunk(scores, true, raw.groups, raw.share, weights, rows)
                    anything = True
                    row += len(true)
                    continue
                width = width or scores.shape[1]
                if self.form != "choices" and scores.shape[1] != width:
                    raise self._ragged(raw, row, width)
                labels, _ = one_per_row(raw.labels, scores.shape, self.where)
                if missing_labels(labels, self.class_names).any():
                    self.refuse_gaps()
                numbers, off = as_numbers(labels, self.meaning or "from-0", scores.shape[1], self.class_names)
                if self.form == "choices":
                    counts = raw.counts if raw.counts is not None else counts_of(raw.scores)
                    check_places(numbers, counts, row, self.where)
                if off.any():
                    self.refuse_labels(scores.shape[1])
                weights = self.weights_of(raw)
                total += 1.0 if weights is None else float(weights.sum())
                yield Chunk(scores, numbers, raw.groups, raw.share, weights, rows)
                anything = True
                row += len(numbers)
        if anything and not total and not self.is_part:
            raise no_weight_at_all(self.weights or "", self.where)

    def _ragged(self, raw: Raw, start: int, width: int) -> InputError:
        counts = raw.counts if raw.counts is not None else np.full(len(raw.scores), raw.scores.shape[1])
        row = int((counts != width).argmax())
        return InputError(
            f"Expected as many scores in every row, but row {start + row} has {counts[row]} where others have {width} "
            f"in {self.where}. Complete the short ones; or say --form choices if every row has choices of its own."
        )

    def first(self) -> Raw | None:
        """Read the first rows only, as they stand in the file."""
        with closing(self.start()) as reading:
            return next(reading, None)

    def scores(self, raw: Raw, start: int = 0) -> Array:
        """Bring scores into one form, shape ``(n, classes)``, and refuse those that no prediction can have."""
        scores = check_scores(raw.scores, self.where)
        if self.form != "choices" and raw.counts is not None:
            raise self._ragged(raw, start, scores.shape[1])
        if self.form == "choices" and scores.ndim == 2:
            found = check_choices(scores, self.kind)
            if found is None:
                self.refuse_gaps()
            elif self.percent:
                return from_percent(found)
            return scores if found is None else found
        with np.errstate(over="ignore", invalid="ignore"):
            total = scores.sum()  # in its own type, which is faster: a sum that overflows is looked at again
        if not np.isfinite(total) and not np.isfinite(scores).all():  # mostly one pass
            self.refuse_gaps()
        if self.percent:
            scores = from_percent(scores)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores) if self.kind == "logits" else 1 - scores, scores], axis=1)
        return scores

    def weights_of(self, raw: Raw) -> Array | None:
        """Return how much each row counts, in float64, and refuse what no weight can be."""
        if raw.weights is None:
            return None
        weights = check_weights(raw.weights, self.where)
        if not np.isfinite(weights).all():
            self.refuse_gaps()
        if not are_valid(weights, self.weights_are):
            strange = StrangeWeights(self.weights_are)
            with closing(self.start()) as reading:
                for each in reading:
                    strange.add(check_weights(each.weights, self.where))
            raise strange.error(self.weights or "", self.where)
        return weights

    def gaps_in(self, raw: Raw) -> tuple[Array, Array, Array]:
        """Mark what is missing: scores by row and column, labels and weights by row."""
        scores = check_scores(raw.scores, self.where)
        several = self.form == "multilabel"  # whose labels are a matrix; what is wrong with one is said elsewhere
        labels = raw.labels if several else one_per_row(raw.labels, scores.shape, self.where)[0]
        no_weight = np.zeros(len(labels), bool)
        if raw.weights is not None:
            no_weight = ~np.isfinite(check_weights(raw.weights, self.where))
        absent = scores == -np.inf if self.form == "choices" else False
        bad: Array = ~(np.isfinite(scores) | absent)
        gone = no_weight & False if several else missing_labels(labels, self.class_names)
        return bad.reshape(len(bad), -1), gone, no_weight

    def count_gaps(self) -> Gaps:
        """Look through all rows for what is missing, and count it."""
        names, label = self.columns
        gaps = Gaps()
        with closing(self.start()) as reading:
            for raw in reading:
                bad, no_label, no_weight = self.gaps_in(raw)
                gaps.add(bad, names, {label: no_label, **({self.weights: no_weight} if self.weights else {})})
        return gaps

    def refuse_gaps(self) -> None:
        """Say how many values are missing, where and in which columns."""
        raise self.count_gaps().error(self.where)

    def refuse_labels(self, n_classes: int) -> None:
        """Look through all labels for those that are no class, and say how many, where and what they are."""
        strange = StrangeLabels(self.meaning or "from-0", n_classes, self.class_names)
        with closing(self.start()) as reading:
            for raw in reading:
                strange.add(one_per_row(raw.labels, raw.scores.shape, self.where)[0])
        raise strange.error(self.where)


def rows_per_chunk(n_classes: int) -> int:
    """Return how many rows to read at once."""
    wide = min(ROWS_AT_ONCE, WIDE_AT_ONCE // max(1, n_classes))
    return max(1, VALUES_AT_ONCE // max(1, n_classes), wide)
