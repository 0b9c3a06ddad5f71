"""Pairs of examples and the weights to mix them with, drawn once per step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surefoot.losses._base import Batch


def beta_source(generator: torch.Generator) -> np.random.Generator:
    """Make a NumPy generator, which can draw from a Beta distribution, out of a torch one, which cannot."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def with_partners(batch: Batch, generator: torch.Generator, **weights: Tensor) -> Batch:
    """Pair every example with another one of the batch.

    Args:
        batch: The whole batch.
        generator: Draws the permutation.
        **weights: What else was drawn for the batch; the same values are given to each example.

    Returns:
        The batch, with ``partner_inputs``, ``partner_labels`` and the weights drawn.
    """
    order = torch.randperm(len(batch), generator=generator).to(batch.labels.device)
    drawn = {"partner_inputs": batch.inputs[order], "partner_labels": batch.labels[order]}
    for name, value in weights.items():
        drawn[name] = value.to(batch.inputs).expand(len(batch), *value.shape)
    return Batch(batch.inputs, batch.labels, batch.indices, {**batch.drawn, **drawn})


def mix(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """Return share·first + (1 − share)·second, row by row.

    Args:
        first: Shape ``(n, …)``.
        second: The same shape.
        share: Shape ``(n,)``.

    Returns:
        The same shape as ``first``.

    Example:
        >>> mix(torch.tensor([[4.0]]), torch.tensor([[0.0]]), torch.tensor([0.75]))
        tensor([[3.]])
    """
    share = share.reshape(-1, *[1] * (first.ndim - 1))
    return share * first + (1 - share) * second
