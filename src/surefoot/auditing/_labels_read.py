"""One walk through rows of several labels: sums over all of them, and a random sample."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.nn.functional import logsigmoid

from surefoot.auditing._counted import Spans, ValueSums, Weighing, counted, weights_of
from surefoot.auditing._reading import OnRows, join_spans, room_for
from surefoot.auditing._sampling import Sample, halves
from surefoot.errors import InputError
from surefoot.metrics.multilabel import LabelStream
from surefoot.sources.labels import Array
from surefoot.sources.source import Source
from surefoot.sources.weights import no_weight_at_all

TINY = 1e-7  # stands in for a probability of 0 where log-odds are needed


@dataclass
class LabelsRead:
    """What one walk through rows of several labels leaves behind; it merges with that of other rows."""

    stream: LabelStream
    losses: dict[str, ValueSums] = field(default_factory=lambda: {key: ValueSums() for key in ("nll", "brier")})
    weighing: Weighing = field(default_factory=Weighing)
    rows: Sample = field(default_factory=lambda: Sample("rows"))
    spans: list[tuple[int, int]] = field(default_factory=list)
    logits: Array = field(default_factory=lambda: np.empty((0, 0)))  # a random sample, in random order
    labels: Array = field(default_factory=lambda: np.empty((0, 0)))
    folds: Array = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Array | None = None
    """Of the sampled rows; None where all count alike."""

    def merge(self, other: LabelsRead) -> None:
        """Add what was read of other rows.

        Args:
            other: Not finished, as this one.

        Raises:
            InputError: If both have read the same rows, or only one of them weights.
        """
        self.spans = join_spans(self.spans, other.spans)
        if self.stream.n and other.stream.n and bool(self.weighing.rows) != bool(other.weighing.rows):
            raise InputError("Expected weights in all parts or in none, but got both. Name them, or leave them out.")
        self.stream.merge(other.stream)
        for key, sums in other.losses.items():
            self.losses[key] = self.losses[key] + sums
        self.weighing.merge(other.weighing)
        self.rows.merge(other.rows)

    def finish(self, source: Source) -> LabelsRead:
        """Take the sample once all rows were read.

        Args:
            source: Where they are from.

        Returns:
            This one.

        Raises:
            InputError: If no row counts.
        """
        if not self.stream.n and self.weighing.rows:
            raise no_weight_at_all(source.weights or "", source.where)
        if not self.stream.n:
            raise InputError(f"Expected at least one row, but {source.where} has none. Check the file.")
        self.logits, self.labels, self.folds, *rest = self.rows.taken()
        self.weights = rest[0] if rest else None
        self.rows = Sample("rows")
        return self


def collect_labels(source: Source, on_rows: OnRows | None, n_bins: int) -> LabelsRead:
    """Walk through rows once.

    Args:
        source: The rows.
        on_rows: Called while reading.
        n_bins: Number of bins.

    Returns:
        Sums and a sample, which merge with those of other rows.

    Raises:
        InputError: If a probability is none.
    """
    read, spans = LabelsRead(LabelStream(n_bins)), Spans()
    stream, losses = read.stream, read.losses
    for chunk in counted(source, read.weighing, spans):
        scores, labels = torch.from_numpy(chunk.scores.astype(np.float64)), torch.from_numpy(chunk.labels)
        probs = scores.sigmoid() if source.kind == "logits" else scores
        if bool(((probs < 0) | (probs > 1)).any()):
            row = int(((probs < 0) | (probs > 1)).any(1).to(torch.uint8).argmax())
            raise InputError(
                f"Expected probabilities in [0, 1] for every label, but row {source.first_row + stream.n + row} has "
                f"{probs[row].tolist()[:6]} in {source.where}. Say --logits or --percent."
            )
        z = scores if source.kind == "logits" else probs.clamp(TINY, 1 - TINY).logit()
        weights = weights_of(chunk)
        stream.update(probs, labels, weights)
        likely = torch.where(labels > 0, probs, 1 - probs)
        sure = logsigmoid(torch.where(labels > 0, z, -z)) if source.kind == "logits" else likely.log()
        losses["nll"].add(-sure.mean(1), weights)
        losses["brier"].add((probs - labels).square().mean(1), weights)
        room = room_for(scores.shape[1])
        more = () if chunk.weights is None else (chunk.weights,)
        read.rows.add(room, chunk.rows, z.numpy(), chunk.labels, halves(chunk.rows), *more)
        if on_rows:
            on_rows(stream.n, chunk.share)
    read.spans = spans.found
    read.rows.shrink()
    return read
