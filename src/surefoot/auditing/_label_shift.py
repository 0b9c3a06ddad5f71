"""Label shift: each class looks as it did, but is more or less frequent. How frequent, and is that all?

Rows of the labelled reference are counted in cells of predicted class × confidence × true class. The new rows, counted
in the same cells without their class, are a mixture of the classes' distributions over cells; expectation maximisation
finds the shares (Saerens et al. 2002), and the cells are calibrated by construction: what they say about the class is
what the reference has counted. Whole bootstraps are done at once, on counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

_ROWS_PER_CELL = 100  # of the reference; with fewer, noise in the cells biases the shares
_MOST_LEVELS = 5
_STEPS = 20  # quantiles at which distributions are compared
_ROUNDS = 2_000
_BLOCK = 4_000_000  # draws at once


@dataclass(frozen=True)
class ScoredRows:
    """What is looked at of rows of probabilities, each of shape ``(n,)``.

    Attributes:
        predicted: The likeliest class.
        features: What is compared between files: of two classes the risk, of more the two largest probabilities.
    """

    predicted: Tensor
    features: tuple[Tensor, ...]

    @classmethod
    def of(cls, probs: Tensor, positive: int | None) -> ScoredRows:
        """Look at probabilities of shape ``(n, classes)``."""
        top, places = probs.topk(2, dim=1)
        features = (top[:, 0], top[:, 1]) if positive is None else (probs[:, positive],)
        return cls(places[:, 0].contiguous(), tuple(each.contiguous() for each in features))


def class_shares(joint: Tensor, new: Tensor) -> Tensor:
    """Find how frequent each class is among new rows, for many pairs of files at once.

    Args:
        joint: Counts of labelled rows, shape ``(files, cells, classes)``.
        new: Counts of new rows, shape ``(files, cells)``; cells that no labelled row is in tell nothing.

    Returns:
        Shape ``(files, classes)``; a class without labelled rows gets 0.

    Example:
        >>> joint = torch.tensor([[[80.0, 20.0], [20.0, 80.0]]])  # 80 % of each class are predicted
        >>> class_shares(joint, torch.tensor([[75.0, 25.0]])).float()  # .8 s + .2 (1 − s) = 3 / 4
        tensor([[0.9167, 0.0833]])
    """
    joint, new = joint.double(), new.double()
    counts = joint.sum(1)
    given = joint / counts.clamp(min=1e-12)[:, None]
    mass = new * (joint.sum(2) > 0)
    mass = mass / mass.sum(1, keepdim=True).clamp(min=1e-12)
    shares = counts / counts.sum(1, keepdim=True)
    for _ in range(_ROUNDS):
        mixed = torch.einsum("rfk,rk->rf", given, shares).clamp(min=1e-300)
        found = shares * torch.einsum("rf,rfk->rk", mass / mixed, given)
        found = found / found.sum(1, keepdim=True).clamp(min=1e-300)
        moved, shares = (found - shares).abs().max(), found
        if moved < 1e-6:
            break
    return shares


@dataclass(frozen=True)
class Cells:
    """Where the rows of both files are.

    Attributes:
        n_classes: How many classes there are.
        n_cells: How many cells.
        labels: Of the reference.
        reference: Cell of each reference row.
        new: Cell of each new row.
        steps: For each feature, the interval between quantiles that each reference and each new row is in.
    """

    n_classes: int
    n_cells: int
    labels: Tensor
    reference: Tensor
    new: Tensor
    steps: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, reference: ScoredRows, labels: Tensor, new: ScoredRows, n_classes: int) -> Cells:
        """Divide each predicted class by quantiles of its confidence, and the features by quantiles of all rows."""
        levels = max(1, min(_MOST_LEVELS, len(labels) // (_ROWS_PER_CELL * n_classes)))
        both = torch.cat([reference.predicted, new.predicted])
        sure = torch.cat([reference.features[0], new.features[0]])
        cells = both * levels
        for k in range(n_classes if levels > 1 else 0):
            rows = both == k
            cells[rows] += _quantile_of(sure[rows], levels)
        n = len(labels)
        steps = []
        for pair in zip(reference.features, new.features, strict=True):
            place = _quantile_of(torch.cat(pair), _STEPS)
            steps.append((place[:n], place[n:]))
        return cls(n_classes, n_classes * levels, labels, cells[:n], cells[n:], tuple(steps))

    def joint(self, draws: Tensor) -> Tensor:
        """Count reference rows by cell and class; each row as often as it was drawn, shape ``(files, n)``."""
        return _count(self.reference * self.n_classes + self.labels, self.n_cells * self.n_classes, draws).view(
            len(draws), self.n_cells, self.n_classes
        )

    def shares(self, draws: Tensor, of_new: Tensor) -> Tensor:
        """Find the classes' shares among the new rows, each file's rows as often as they were drawn."""
        return class_shares(self.joint(draws), _count(self.new, self.n_cells, of_new))

    def misfit(self, draws: Tensor, shares: Tensor, new: tuple[Tensor, ...], of_new: Tensor) -> Tensor:
        """Return how far the new rows' features are from those of the reference at other shares (Anderson–Darling).

        Args:
            draws: How often each reference row was drawn, shape ``(files, n)``.
            shares: Of the classes among the new rows, shape ``(files, classes)``.
            new: For each feature, where the new rows are.
            of_new: How often each of them was drawn, shape ``(files, m)``.

        Returns:
            Shape ``(files,)``.
        """
        total = torch.zeros(len(draws), dtype=draws.dtype)
        for (place, _), other in zip(self.steps, new, strict=True):
            joint = _count(place * self.n_classes + self.labels, _STEPS * self.n_classes, draws)
            joint = joint.view(len(draws), _STEPS, self.n_classes)
            expected = torch.einsum("rck,rk->rc", joint / joint.sum(1, keepdim=True).clamp(min=1e-12), shares)
            found = _count(other, _STEPS, of_new)
            apart = (found / found.sum(1, keepdim=True) - expected).cumsum(1)[:, :-1]
            below = expected.cumsum(1)[:, :-1].clamp(0.001, 0.999)
            total += (apart.square() / (below * (1 - below))).sum(1)
        return total


def blocks(n: int, files: int) -> Iterator[int]:
    """Divide a bootstrap into blocks of files that fit into memory."""
    at_once = max(1, min(files, _BLOCK // max(1, n)))
    for start in range(0, files, at_once):
        yield min(at_once, files - start)


def drawn(chances: Tensor, n: int, files: int, source: Generator) -> Tensor:
    """Draw n rows with replacement for each of some files, and count how often each was.

    Args:
        chances: In proportion to how likely each row is, shape ``(rows,)``.
        n: Rows per file.
        files: How many.
        source: Where the randomness comes from.

    Returns:
        Shape ``(files, rows)``, float64.
    """
    steps = chances.double().cumsum(0)
    at = torch.rand(files, n, generator=source, dtype=torch.float64) * steps[-1]
    rows = torch.searchsorted(steps, at, right=True).clamp(max=len(chances) - 1)
    return torch.zeros(files, len(chances), dtype=torch.float64).scatter_add_(1, rows, torch.ones_like(at))


def _quantile_of(values: Tensor, n: int) -> Tensor:
    """Return between which quantiles each value is, from 0 to n − 1."""
    if not len(values):
        return torch.zeros(0, dtype=torch.int64)
    order = values.sort().values
    edges = order[(torch.arange(1, n) * len(values)) // n]
    return torch.searchsorted(edges, values)


def _count(places: Tensor, size: int, draws: Tensor) -> Tensor:
    return torch.zeros(len(draws), size, dtype=draws.dtype).index_add_(1, places, draws)
