"""What one walk through a source leaves behind: sums over all rows, and random samples of them that do not grow.

What was read of parts of the rows merges to what a walk through all of them leaves behind, in whatever parts they were
read: counts and samples exactly, sums but for the rounding of their last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._confidence_counts import ConfidenceCounts
from surefoot.auditing._counted import ValueSums, Weighing
from surefoot.auditing._doubts import doubts_about
from surefoot.auditing._sampling import Sample
from surefoot.errors import InputError
from surefoot.metric_keys import read_metric
from surefoot.metrics import Stream
from surefoot.registry import Part
from surefoot.schema import Form, Predictions
from surefoot.sources.choices import with_possible_truth
from surefoot.sources.forms import Bins
from surefoot.sources.labels import Array
from surefoot.sources.source import Source
from surefoot.sources.weights import no_weight_at_all

SAMPLED_VALUES = 2_000_000  # rows × classes that are kept to fit a temperature on
LEAST_SAMPLED = 2_000  # rows, however many classes there are
MOST_SAMPLED_VALUES = 16_000_000  # but of vocabularies no more rows × classes than this
MOST_RANKED = 20_000  # rows for metrics that look at every example at once, hundreds of times
ALWAYS = ("nll", "brier")  # what files are compared by

B = TypeVar("B", bound=Bins)
OnRows = Callable[[int, float | None], None]  # rows read so far, and their share of the file


@dataclass
class Reading:
    """What one walk through the rows leaves behind; its size does not depend on their number."""

    bins: Bins
    class_bins: Stream
    values: dict[str, ValueSums] = field(default_factory=dict)  # of metrics that are means over rows, by key
    of_wrong: dict[str, ValueSums] = field(default_factory=dict)  # the same over wrongly predicted rows
    streams: dict[str, Stream] = field(default_factory=dict)  # of other metrics that sums determine
    slices: dict[str, dict[str, Bins]] = field(default_factory=dict)  # by column and value
    class_slices: dict[str, dict[str, Stream]] = field(default_factory=dict)  # the same for each of two classes
    form: Form = "multiclass"
    rows_digest: str = ""  # what the rows are of, where something says so
    n: int = 0
    n_classes: int = 0  # or the most choices of a row
    by_class: bool = False  # whether columns are classes, and few enough for tables over them
    impossible: int = 0  # rows whose true class was given a probability of 0
    labels_digest: str = ""
    logits: Array = field(default_factory=lambda: np.empty((0, 0)))  # a random sample, in random order
    labels: Array = field(default_factory=lambda: np.empty(0, np.int64))
    folds: Array = field(default_factory=lambda: np.empty(0, np.int64))
    confidence: Tensor = field(default_factory=lambda: torch.empty(0))  # another one, of more rows
    correct: Tensor = field(default_factory=lambda: torch.empty(0))
    weights: Array | None = None  # of the sampled rows; None where all count alike
    top_weights: Tensor | None = None  # of the others
    weighing: Weighing = field(default_factory=Weighing)  # all weights that were seen
    doubts: tuple[str, ...] = ()  # whether these can be the predictions that they seem to be
    counts: ConfidenceCounts | None = None  # answers by their confidence, to choose thresholds
    rows: Sample = field(default_factory=lambda: Sample("rows"))  # what is sampled of what was read so far
    tops: Sample = field(default_factory=lambda: Sample("top labels"))
    places: int = 0  # a digest of labels and where they stand, so far
    spans: list[tuple[int, int]] = field(default_factory=list)  # which rows were read: the first and the last
    ignored: tuple[int, int] = (0, 0)  # rows whose label does not count, of how many

    @property
    def n_bins(self) -> int:
        """How many bins of confidence there are."""
        return self.bins.sums.shape[1]

    @property
    def stored(self) -> int:
        """How many rows the file has, of whatever weight."""
        return self.weighing.rows or self.n

    @property
    def effective(self) -> float:
        """How many equal rows the rows are worth."""
        return self.n if self.weights is None else self.weighing.effective

    def merge(self, other: Reading) -> None:
        """Add what was read of other rows of the same predictions, in the same way.

        Args:
            other: Not finished, as this one.

        Raises:
            InputError: If both have read the same rows, or one of them rows of another kind.
        """
        self.spans = join_spans(self.spans, other.spans)
        if self.form != other.form or self.rows_digest != other.rows_digest:
            raise InputError(
                f"Expected parts of the same predictions, but got {self.form} and {other.form} of different sources. "
                "Read all parts in the same way."
            )
        if self.n and other.n and bool(self.weighing.rows) != bool(other.weighing.rows):
            raise InputError("Expected weights in all parts or in none, but got both. Name them, or leave them out.")
        self.bins.merge(other.bins)
        self.class_bins.merge(other.class_bins)
        for mine, its in ((self.values, other.values), (self.of_wrong, other.of_wrong)):
            for key, sums in its.items():
                mine[key] = mine[key] + sums
        for key, stream in other.streams.items():
            self.streams[key].merge(stream)
        _merge_slices(self.slices, other.slices)
        _merge_slices(self.class_slices, other.class_slices)
        self.n += other.n
        self.n_classes = max(self.n_classes, other.n_classes)
        self.by_class |= other.by_class
        self.impossible += other.impossible
        self.weighing.merge(other.weighing)
        self.rows.merge(other.rows)
        self.tops.merge(other.tops)
        self.places = (self.places + other.places) % 2**64
        self.ignored = self.ignored[0] + other.ignored[0], self.ignored[1] + other.ignored[1]
        if self.counts is not None and other.counts is not None:
            self.counts.merge(other.counts)

    def shrink(self) -> Reading:
        """Let go of what no merge would take any more, before it is sent elsewhere."""
        self.rows.shrink()
        self.tops.shrink()
        return self

    def finish(self, source: Source) -> Reading:
        """Take the samples once all rows were read, and look whether scores and labels go together.

        Args:
            source: Where the rows are from.

        Returns:
            This one.

        Raises:
            InputError: If no row counts, or labels can hardly belong to the scores.
        """
        if not self.n and self.weighing.rows:
            raise no_weight_at_all(source.weights or "", source.where)
        if not self.n:
            raise InputError(f"Expected at least one row, but {source.where} has none. Check the file.")
        self.slices, self.class_slices = _ordered(self.slices, source), _ordered(self.class_slices, source)
        self.logits, self.labels, self.folds, *of_rows = self.rows.taken()
        self.confidence, self.correct, *of_tops = map(torch.from_numpy, self.tops.taken())
        self.rows, self.tops = Sample("rows"), Sample("top labels")
        if of_rows:
            self.weights, self.top_weights = of_rows[0], of_tops[0]
        self.labels_digest = f"{self.places:016x}"
        if source.ignored is not None:
            source.ignored.count, source.ignored.n = self.ignored
        self.doubts = doubts_about(self.logits, self.labels, self.confidence.numpy(), source)
        return self

    def predictions(self) -> Predictions:
        """Return the sampled rows, to fit on."""
        logits = with_possible_truth(self.logits, self.labels) if self.form == "choices" else self.logits
        return Predictions(logits, self.labels, "calibration", weights=self.weights, form=self.form)

    def probs(self, most: int | None = None) -> Tensor:
        """Probabilities of sampled rows in float64."""
        return torch.from_numpy(self.logits[:most]).double().softmax(1)


def room_for(n_classes: int, values: int | None = None) -> int:
    """Return how many rows to keep."""
    values = SAMPLED_VALUES if values is None else values
    most = max(MOST_SAMPLED_VALUES, values) // n_classes
    return max(1, min(max(LEAST_SAMPLED, values // n_classes), most))


def part_of(key: str, n_bins: int) -> tuple[Part, dict[str, Any]]:
    """Find a metric by its key, with all its options; unless it says another, the number of bins is the audit's."""
    part, options = read_metric(key)
    return part, {**options, "n_bins": n_bins} if "n_bins" in options and "n_bins" not in key else options


def join_spans(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join which rows were read.

    Args:
        one: Numbers of the first and the last row of each stretch.
        other: Likewise.

    Returns:
        Both in order; stretches that follow each other are one.

    Raises:
        InputError: If some row is in both.

    Example:
        >>> join_spans([(0, 9), (30, 39)], [(10, 19)])
        [(0, 19), (30, 39)]
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted([*one, *other]):
        if found and first <= found[-1][1]:
            raise InputError(
                f"Expected parts of different rows, but row {first:,} is in two of them. Say with start= how many rows "
                "come before each part."
            )
        if found and first == found[-1][1] + 1:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


def _merge_slices(mine: dict[str, dict[str, B]], its: Mapping[str, Mapping[str, B]]) -> None:
    for column, found in its.items():
        own = mine.setdefault(column, {})
        for value, bins in found.items():
            if value in own:
                own[value].merge(bins)
            else:
                own[value] = bins


def _ordered(slices: Mapping[str, Mapping[str, B]], source: Source) -> dict[str, dict[str, B]]:
    """Put columns in the order in which they were asked for, and their values in that of the alphabet."""
    places = {name: place for place, name in enumerate(source.groups)}
    columns = sorted(slices, key=lambda column: places.get(column, len(places)))
    return {column: dict(sorted(slices[column].items())) for column in columns}
