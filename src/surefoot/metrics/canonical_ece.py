"""Canonical calibration error: of the whole probability vector, by a Dirichlet kernel."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from surefoot.errors import OptionError
from surefoot.metrics._input import Values
from surefoot.metrics._weights import as_counts, check_weighted, mean
from surefoot.registry import METRICS

GRID = tuple(10 ** (step / 2) for step in range(-8, 1))  # 1e-4 … 1
_BLOCK = 512
_TINY = float(torch.finfo(torch.float32).tiny)


def _log_kernel(probs: Tensor, counts: Tensor | None, bandwidth: float) -> Iterator[tuple[int, Tensor]]:
    """Return, for runs of rows, log Dir(p_j; p_i / h + 1) of all rows i, with the row itself left out once."""
    n, n_classes = probs.shape
    log_p = probs.clamp(min=_TINY).log()
    constant = torch.lgamma(torch.tensor(1 / bandwidth + n_classes, dtype=torch.float64))
    constant = constant - torch.lgamma(probs / bandwidth + 1).sum(1)
    others = torch.ones(n, dtype=torch.float64) if counts is None else counts
    own = (others - 1).clamp(min=0)
    for start in range(0, n, _BLOCK):
        block = log_p[start : start + _BLOCK] @ probs.T / bandwidth + constant
        rows = torch.arange(len(block))
        how_many = others.log().repeat(len(block), 1)
        how_many[rows, start + rows] = own[start + rows].log()
        yield start, block + how_many


def likeliest_bandwidth(probs: Tensor, counts: Tensor | None = None) -> float:
    """Return the bandwidth of a grid under which each prediction is likeliest, given the others.

    Args:
        probs: Shape ``(n, classes)``, float64.
        counts: How often each row counts; None where all count once.

    Returns:
        One of 1e-4, 10^-3.5, … 1; the smallest of equals.
    """

    def likelihood(bandwidth: float) -> float:
        found = torch.cat([block.logsumexp(1) for _, block in _log_kernel(probs, counts, bandwidth)])
        return mean(found, counts).item()

    return max(GRID, key=likelihood)


@METRICS.register(
    "canonical_ece",
    label="canonical ECE",
    lower_is_better=True,
    range=(0.0, 2.0),
    unit="%",
    reference="Popordanoska et al. 2022, arXiv:2210.07810",
    whole="it looks at pairs of examples",
    interval="none",
    quadratic=True,
)
def canonical_ece(
    probs: Values, labels: Values, weights: Values | None = None, *, bandwidth: float | None = None
) -> Tensor:
    r"""Canonical calibration error: how far whole probability vectors are from the frequencies of the classes.

    .. math:: \frac{1}{n} \sum_j \| \sum_{i \ne j} k(p_j; p_i) e_{y_i} / \sum_{i \ne j} k(p_j; p_i) - p_j \|_1

    with k(·; p) the density of a Dirichlet distribution with parameters p / h + 1. Takes O(n²) time. Estimated from few
    examples of many classes it is large also where predictions are calibrated: compare it between models of the same
    rows, not with 0.

    Args:
        probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
        labels: Class indices, shape ``(n,)``.
        weights: How much each row counts, shape ``(n,)``; None where all count alike. A row of weight w is w distinct
            examples; weights that are not all whole numbers are scaled to a mean of 1.
        bandwidth: h; when left out, the one of nine from 1e-4 to 1 under which each prediction is likeliest, given the
            others.

    Returns:
        Scalar in [0, 2], float64; NaN of one example.

    Raises:
        OptionError: If the bandwidth is not above 0.

    Example:
        >>> from torch import tensor
        >>> canonical_ece(tensor([[0.75, 0.25], [0.75, 0.25]]), tensor([0, 1]))  # 1.5 and .5
        tensor(1., dtype=torch.float64)
    """
    p, truth, given = check_weighted(probs, labels, weights)
    p, counts = p.double(), None if given is None else as_counts(given)
    if (len(p) if counts is None else float(counts.sum())) <= 1:
        return torch.tensor(torch.nan, dtype=torch.float64)
    if bandwidth is None:
        bandwidth = likeliest_bandwidth(p, counts)
    if not bandwidth > 0:
        raise OptionError(f"Expected a bandwidth > 0, but got {bandwidth}. Leave it out for the likeliest.")
    onehot = torch.nn.functional.one_hot(truth, p.shape[1]).double()
    found = []
    for start, block in _log_kernel(p, counts, bandwidth):
        frequencies = block.softmax(1) @ onehot
        found.append((frequencies - p[start : start + len(block)]).abs().sum(1))
    return mean(torch.cat(found), counts)
