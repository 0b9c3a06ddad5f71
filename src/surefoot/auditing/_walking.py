"""Walks through a source: one that adds everything up, and another that goes through the same rows again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from surefoot.auditing._confidence_counts import ConfidenceCounts
from surefoot.auditing._counted import Spans, ValueSums, counted, weights_of
from surefoot.auditing._reading import ALWAYS, MOST_RANKED, SAMPLED_VALUES, B, OnRows, Reading, part_of, room_for
from surefoot.auditing._sampling import digest, halves
from surefoot.logs import finite_logs
from surefoot.metrics import Stream
from surefoot.metrics._weights import require_weights
from surefoot.metrics._wide import wide_rows
from surefoot.registry import Part
from surefoot.schema import Form
from surefoot.sources.forms import as_confidence, bins_of, has_classes, is_mean, is_wide, scale_of, top_of
from surefoot.sources.kind import no_probabilities
from surefoot.sources.labels import Array
from surefoot.sources.source import SUM_TOLERANCE, Chunk, Source

if TYPE_CHECKING:
    from surefoot.auditing._slicing import Slicing

_UNSURE = 1e-3  # what is fitted where somebody says 0 % or 100 %, which has no log-odds


def collect(
    source: Source,
    *,
    n_bins: int,
    where: str,
    metrics: Sequence[str] = (),
    sampled_values: int = SAMPLED_VALUES,
    risks: bool = False,
    on_rows: OnRows | None = None,
    slicing: Slicing | None = None,
) -> Reading:
    """Walk through all rows once, and leave open whether there are more in other parts.

    Args:
        source: Its kind is known.
        n_bins: Number of bins.
        where: The file, for messages.
        metrics: Keys of those that are wanted; NLL and Brier score, and what bins tell, are always there.
        sampled_values: How many rows × classes to keep.
        risks: Whether to count answers by their confidence, to choose thresholds.
        on_rows: Called while reading.
        slicing: How rows are divided into slices; not at all where it is left out.

    Returns:
        Sums, slices and samples, which merge with those of other parts. The same rows of equally long sources are
        sampled, so two can be paired.
    """
    counts = ConfidenceCounts(are_counts=source.weights_are == "counts") if risks else None
    parts = {key: part_of(key, n_bins) for key in dict.fromkeys([*ALWAYS, *metrics])}
    means = {key: found for key, found in parts.items() if is_mean(found[0], source.form)}
    wide = is_wide(source.kind, source.form, source.n_classes, (part for part, _ in means.values()))
    bins = partial(bins_of, source.form, n_bins, wide=wide)
    reading = Reading(bins(), Stream("classwise_ece", n_bins=n_bins), form=source.form, counts=counts)
    reading.rows_digest = source.rows_digest
    for key, (part, options) in parts.items():
        if key in means:
            reading.values[key], reading.of_wrong[key] = ValueSums(), ValueSums()
        elif "sums" in part.facts and "top" not in part.facts:
            reading.streams[key] = Stream(part.name, **options)
    spans = Spans()
    for chunk in counted(source, reading.weighing, spans):
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
            log_p = log_probs(chunk, source, source.first_row + reading.n, where)
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
        dealt = halves(chunk.rows)
        rows = chunk.rows
        reading.rows.add(room_for(logits.shape[1], sampled_values), rows, logits, chunk.labels, dealt, *more)
        reading.tops.add(MOST_RANKED, rows, confidence.numpy(), correct.numpy(), *more)
        if counts is not None:
            counts.add(confidence, correct, dealt, rows, chunk.groups, chunk.weights)
        reading.places = (reading.places + digest(rows, chunk.labels)) % 2**64
        reading.n += len(labels)
        if on_rows:
            on_rows(reading.n, chunk.share)
    reading.spans = spans.found
    if source.ignored is not None:
        reading.ignored = source.ignored.count, source.ignored.n
    return reading


def read(source: Source, **options: Any) -> Reading:
    """Walk through all rows once.

    Args:
        source: Its kind is known.
        **options: As :func:`collect` takes them.

    Returns:
        All that was read, samples taken. Labels that can hardly belong to the scores are refused.
    """
    return collect(source, **options).finish(source)


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


def _logits(log_p: Tensor, source: Source, single: bool) -> Tensor:
    """Make logits of probabilities: 0 becomes a very small one, a confidence of 0 or 1 a little less extreme.

    Absent choices stay absent.
    """
    if source.form == "confidence":
        return torch.where(log_p.isinf(), math.log(_UNSURE), log_p)
    return log_p if source.form == "choices" else torch.from_numpy(finite_logs(log_p.numpy(), single=single))


def walk(
    source: Source, where: str, on_rows: OnRows | None = None, *, as_stored: bool = False, wide: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor | None, Array]]:
    """Go through all rows once more, as logits in float64 with labels, weights and numbers.

    Args:
        source: Its kind is known.
        where: The file, for messages.
        on_rows: Called while reading.
        as_stored: Every row once, also those that count as none or as several.
        wide: Logits in the type that they have.

    Yields:
        Logits, labels, weights where not all rows count alike, and the numbers of the rows.
    """
    start = source.first_row
    for chunk in source.chunks() if as_stored else counted(source):
        if source.kind == "logits":
            logits = torch.from_numpy(chunk.scores if wide else chunk.scores.astype(np.float64))
        else:
            logits = _logits(log_probs(chunk, source, start, where), source, chunk.scores.dtype == np.float32)
        start += len(chunk.labels)
        yield logits, torch.from_numpy(chunk.labels), weights_of(chunk), chunk.rows
        if on_rows:
            on_rows(start, chunk.share)


def _logits_of(chunk: Chunk, source: Source, log_p: Tensor) -> Array:
    if source.kind == "logits":
        return chunk.scores
    found: Array = _logits(log_p, source, chunk.scores.dtype == np.float32).numpy().astype(chunk.scores.dtype)
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
