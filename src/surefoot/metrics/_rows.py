"""Checked rows for one metric, and the metric on rows drawn anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from surefoot.metrics._binning import bin_sums
from surefoot.metrics._resample import BinnedDraws, resamples
from surefoot.metrics._top import top_label
from surefoot.registry import Part


@dataclass(frozen=True)
class Rows:
    """Rows that a metric is computed on, from as little of them as determines it.

    Attributes:
        part: The metric.
        probs: Class probabilities, checked.
        labels: Class indices.
        weights: How much each row represents; None where all count alike.
        options: All of the metric's options.
    """

    part: Part
    probs: Tensor
    labels: Tensor
    weights: Tensor | None
    options: Mapping[str, Any]

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        """Confidence and correctness."""
        return top_label(self.probs, self.labels)

    def each(self) -> Tensor:
        """Return the value per example that the metric is the mean of."""
        each: Tensor = self.part.facts["each"](self.probs, self.labels, **self.options)
        return each

    def bins(self) -> Tensor:
        """Return the sums of equal-width bins."""
        return bin_sums(*self.top, int(self.options["n_bins"]), self.weights)

    def value(self) -> float:
        """Return the metric."""
        more = {} if self.weights is None else {"weights": self.weights}
        return float(self.part.build(self.probs, self.labels, **more, **self.options))

    def replicates(self, n_resamples: int, source: Generator) -> Tensor:
        """Return the metric on examples drawn with replacement, again and again."""
        blocks = resamples(len(self.labels), n_resamples, source)
        if "each" in self.part.facts:
            each, weights = self.each(), self.weights
            if weights is None:
                return torch.cat([each[block].mean(1) for block in blocks])
            return torch.cat([(weights * each)[block].sum(1) / weights[block].sum(1) for block in blocks])
        if self.part.facts.get("bins"):
            draws = BinnedDraws(*self.top, int(self.options["n_bins"]), self.weights)
            return torch.cat([torch.vmap(self.part.facts["finish"])(draws.of_these(block)) for block in blocks])
        rows = (row for block in blocks for row in block)
        if "top" in self.part.facts:
            top, columns = self.part.facts["top"], (*self.top, *self._more)
        else:
            top, columns = self.part.build, (self.probs, self.labels, *self._more)
        return torch.stack([top(*(column[row] for column in columns), **self.options) for row in rows])

    @property
    def _more(self) -> tuple[Tensor, ...]:
        return () if self.weights is None else (self.weights,)
