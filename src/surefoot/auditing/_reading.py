"""One walk through a source: sums over all rows, and random samples of them whose size does not grow."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._choices import with_possible_truth
from surefoot.auditing._confidence_counts import ConfidenceCounts
from surefoot.auditing._counted import ValueSums, Weighing, counted, weights_of
from surefoot.auditing._doubts import doubts_about
from surefoot.auditing._forms import Bins, as_confidence, bins_of, has_classes, is_mean, is_wide, scale_of, top_of
from surefoot.auditing._kind import no_probabilities
from surefoot.auditing._labels import Array
from surefoot.auditing._sampling import Folds, Sample
from surefoot.auditing._source import SUM_TOLERANCE, Chunk, Source
from surefoot.metric_keys import read_metric
from surefoot.metrics import Stream
from surefoot.metrics._weights import require_weights
from surefoot.metrics._wide import wide_rows
from surefoot.registry import Part
from surefoot.schema import Form, Predictions

if TYPE_CHECKING:
    from surefoot.auditing._slicing import Slicing

SAMPLED_VALUES = 2_000_000  # rows × classes that are kept to fit a temperature on
LEAST_SAMPLED = 2_000  # rows, however many classes there are
MOST_SAMPLED_VALUES = 16_000_000  # but of vocabularies no more rows × classes than this
MOST_RANKED = 20_000  # rows for metrics that look at every example at once, hundreds of times
ALWAYS = ("nll", "brier")  # what files are compared by
_TINY = float(np.finfo(np.float32).tiny)  # stands in for a probability of 0 where a logarithm is needed

_UNSURE = 1e-3  # what is fitted where somebody says 0 % or 100 %, which has no log-odds
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

    def predictions(self) -> Predictions:
        """Return the sampled rows, to fit on."""
        logits = with_possible_truth(self.logits, self.labels) if self.form == "choices" else self.logits
        return Predictions(logits, self.labels, "calibration", weights=self.weights, form=self.form)

    def probs(self, most: int | None = None) -> Tensor:
        """Probabilities of sampled rows in float64."""
        return torch.from_numpy(self.logits[:most]).double().softmax(1)


def read(
    source: Source,
    *,
    n_bins: int,
    where: str,
    metrics: Sequence[str] = (),
    sampled_values: int = SAMPLED_VALUES,
    counts: ConfidenceCounts | None = None,
    on_rows: OnRows | None = None,
    slicing: Slicing | None = None,
) -> Reading:
    """Walk through all rows once.

    Args:
        source: Its kind is known.
        n_bins: Number of bins.
        where: The file, for messages.
        metrics: Keys of those that are wanted; NLL and Brier score, and what bins tell, are always there.
        sampled_values: How many rows × classes to keep.
        counts: Where answers are counted by their confidence, to choose thresholds.
        on_rows: Called while reading.
        slicing: How rows are divided into slices; not at all where it is left out.

    Returns:
        Sums, slices and samples. The same rows of equally long sources are sampled, so two can be paired. Labels that
        can hardly belong to the scores are refused.
    """
    parts = {key: part_of(key, n_bins) for key in dict.fromkeys([*ALWAYS, *metrics])}
    means = {key: found for key, found in parts.items() if is_mean(found[0], source.form)}
    wide = is_wide(source.kind, source.form, source.n_classes, (part for part, _ in means.values()))
    bins = partial(bins_of, source.form, n_bins, wide=wide)
    reading = Reading(bins(), Stream("classwise_ece", n_bins=n_bins), form=source.form)
    reading.rows_digest = source.rows_digest
    for key, (part, options) in parts.items():
        if key in means:
            reading.values[key], reading.of_wrong[key] = ValueSums(), ValueSums()
        elif "sums" in part.facts and "top" not in part.facts:
            reading.streams[key] = Stream(part.name, **options)
    digest = hashlib.blake2b(digest_size=16)
    rows, tops, folds = Sample("rows"), Sample("top labels"), Folds()
    for chunk in counted(source, reading.weighing):
        labels, weights = torch.from_numpy(chunk.labels), weights_of(chunk)
        if weights is not None and not reading.n:
            for part, _ in parts.values():
                require_weights(part)
        chunk = replace(chunk, groups={} if slicing is None else slicing.of(chunk.groups))
        reading.n_classes = max(reading.n_classes, chunk.scores.shape[1])
        if wide:
            found = wide_rows(torch.from_numpy(chunk.scores), labels)
            logits, confidence, correct = chunk.scores, found.confidence, found.correct
            values = {key: found.values(part.name) for key, (part, _) in means.items()}
            probs, seen = as_confidence(found)
        else:
            log_p = log_probs(chunk, source, reading.n, where)
            probs, seen = log_p.exp(), labels
            logits, confidence, correct = _logits_of(chunk, source, log_p), *top_of(source.form)(probs, labels)
            values = {key: _values(log_p, probs, labels, *found, source.form) for key, found in means.items()}
            reading.impossible += int(log_p.gather(1, labels[:, None]).isinf().sum())
        reading.bins.update(probs, seen, weights)
        if not wide:
            _add_classes(reading, chunk, probs, labels, weights)
        _add_slices(reading.slices, bins, chunk, probs, seen)
        for key, each in values.items():
            reading.values[key].add(each, weights)
            reading.of_wrong[key].add(each[~correct], None if weights is None else weights[~correct])
        more = () if chunk.weights is None else (chunk.weights,)
        halves = folds.next(len(labels))
        rows.add(room_for(logits.shape[1], sampled_values), logits, chunk.labels, halves, *more)
        tops.add(MOST_RANKED, confidence.numpy(), correct.numpy(), *more)
        if counts is not None:
            counts.add(confidence, correct, halves, chunk.groups, chunk.weights)
        digest.update(np.ascontiguousarray(chunk.labels).tobytes())
        reading.n += len(labels)
        if on_rows:
            on_rows(reading.n, chunk.share)
    reading.logits, reading.labels, reading.folds, *of_rows = rows.taken()
    reading.confidence, reading.correct, *of_tops = map(torch.from_numpy, tops.taken())
    if of_rows:
        reading.weights, reading.top_weights = of_rows[0], of_tops[0]
    reading.labels_digest = digest.hexdigest()
    if reading.n:
        reading.doubts = doubts_about(reading.logits, reading.labels, reading.confidence.numpy(), source)
    return reading


def room_for(n_classes: int, values: int | None = None) -> int:
    """Return how many rows to keep."""
    values = SAMPLED_VALUES if values is None else values
    most = max(MOST_SAMPLED_VALUES, values) // n_classes
    return max(1, min(max(LEAST_SAMPLED, values // n_classes), most))


def part_of(key: str, n_bins: int) -> tuple[Part, dict[str, Any]]:
    """Find a metric by its key, with all its options; unless it says another, the number of bins is the audit's."""
    part, options = read_metric(key)
    return part, {**options, "n_bins": n_bins} if "n_bins" in options and "n_bins" not in key else options


def log_probs(chunk: Chunk, source: Source, start: int, where: str) -> Tensor:
    """Return log-probabilities in float64; −∞ where a probability is 0.

    Args:
        chunk: Some rows.
        source: Says what the scores are.
        start: Number of the first row, for messages.
        where: The file, for messages.

    Returns:
        Shape ``(n, classes)``.

    Raises:
        InputError: If rows of probabilities do not sum to one.
    """
    scores = torch.from_numpy(chunk.scores.astype(np.float64))
    if source.kind == "logits":
        return scores.log_softmax(1)
    sums, least = scores.sum(1), scores.min(1).values
    off = ((sums - 1).abs() > SUM_TOLERANCE) | (least < 0)
    if bool(off.any()):
        row = int(off.to(torch.uint8).argmax())
        raise no_probabilities(start + row, scores[row].numpy(), where)
    return scores.log_()


def _logits(log_p: Tensor, source: Source) -> Tensor:
    """Make logits of probabilities: 0 becomes a very small one, a confidence of 0 or 1 a little less extreme.

    Absent choices stay absent.
    """
    if source.form == "confidence":
        return torch.where(log_p.isinf(), math.log(_UNSURE), log_p)
    return log_p if source.form == "choices" else log_p.clamp(min=float(np.log(_TINY)))


def walk(
    source: Source, where: str, on_rows: OnRows | None = None, *, as_stored: bool = False, wide: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Go through all rows once more, as logits in float64 with labels and weights.

    Args:
        source: Its kind is known.
        where: The file, for messages.
        on_rows: Called while reading.
        as_stored: Every row once, also those that count as none or as several.
        wide: Logits in the type that they have.

    Yields:
        Logits, labels, and weights where not all rows count alike.
    """
    start = 0
    for chunk in source.chunks() if as_stored else counted(source):
        if source.kind == "logits":
            logits = torch.from_numpy(chunk.scores if wide else chunk.scores.astype(np.float64))
        else:
            logits = _logits(log_probs(chunk, source, start, where), source)
        start += len(chunk.labels)
        yield logits, torch.from_numpy(chunk.labels), weights_of(chunk)
        if on_rows:
            on_rows(start, chunk.share)


def _logits_of(chunk: Chunk, source: Source, log_p: Tensor) -> Array:
    if source.kind == "logits":
        return chunk.scores
    found: Array = _logits(log_p, source).numpy().astype(chunk.scores.dtype)
    return found


def _values(log_p: Tensor, probs: Tensor, labels: Tensor, part: Part, options: dict[str, Any], form: Form) -> Tensor:
    """Return the value per row that a metric is the mean of."""
    of_logs, of_probs = part.facts.get("each_of_logs"), part.facts["each"]
    values: Tensor = of_logs(log_p, labels, **options) if of_logs else of_probs(probs, labels, **options)
    return values * scale_of(part.name, form)


def _add_classes(reading: Reading, chunk: Chunk, probs: Tensor, labels: Tensor, weights: Tensor | None) -> None:
    """Add rows to what needs the probability of every class."""
    if has_classes(reading.form, probs.shape[1]):
        reading.by_class = True
        reading.class_bins.update(probs, labels, weights)
    for stream in reading.streams.values():
        stream.update(probs, labels, weights)
    if probs.shape[1] == 2 and reading.form == "multiclass":
        new = partial(Stream, "classwise_ece", n_bins=reading.n_bins)
        _add_slices(reading.class_slices, new, chunk, probs, labels)


def _add_slices(
    slices: dict[str, dict[str, B]],
    new: Callable[[], B],
    chunk: Chunk,
    probs: Tensor,
    labels: Tensor,
) -> None:
    all_weights = weights_of(chunk)
    for column, values in chunk.groups.items():
        found = slices.setdefault(column, {})
        names, places = np.unique(values, return_inverse=True)
        for number, name in enumerate(names):
            rows = torch.from_numpy(np.flatnonzero(places == number))
            weights = None if all_weights is None else all_weights[rows]
            found.setdefault(str(name), new()).update(probs[rows], labels[rows], weights)
