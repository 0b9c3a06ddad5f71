"""Canonical calibration error against the formula, one pair at a time."""

import math
from importlib import import_module

import pytest
import torch
from scipy.stats import dirichlet

from surefoot.errors import OptionError
from surefoot.metrics.canonical_ece import GRID, canonical_ece, likeliest_bandwidth


def made(n: int, n_classes: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, n_classes, generator=source, dtype=torch.float64)
    return (2 * logits).softmax(1), torch.multinomial(logits.softmax(1), 1, generator=source).squeeze(1)


def slow(probs: torch.Tensor, labels: torch.Tensor, h: float) -> float:
    """The formula with scipy's density."""
    total = 0.0
    p = [row / row.sum() for row in probs.numpy()]
    for j in range(len(p)):
        share, mass = [0.0] * len(p[0]), 0.0
        for i in range(len(p)):
            if i != j:
                k = float(dirichlet.pdf(p[j], p[i] / h + 1))
                share[int(labels[i])] += k
                mass += k
        total += sum(abs(each / mass - q) for each, q in zip(share, p[j], strict=True))
    return total / len(p)


def slow_likelihood(probs: torch.Tensor, h: float) -> float:
    p = [row / row.sum() for row in probs.numpy()]
    sums = [sum(float(dirichlet.pdf(p[j], p[i] / h + 1)) for i in range(len(p)) if i != j) for j in range(len(p))]
    return sum(math.log(max(each, 1e-300)) for each in sums)


@pytest.mark.parametrize("h", [0.02, 0.3])
def test_it_is_the_formula(h: float) -> None:
    probs, labels = made(40)
    assert canonical_ece(probs, labels, bandwidth=h).item() == pytest.approx(slow(probs, labels, h), abs=1e-10)


def test_the_bandwidth_is_the_likeliest() -> None:
    probs, labels = made(40)
    best = max((h for h in GRID if h > 1e-3), key=lambda h: slow_likelihood(probs, h))
    assert likeliest_bandwidth(probs) == best
    assert canonical_ece(probs, labels) == canonical_ece(probs, labels, bandwidth=best)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = made(50)
    whole = canonical_ece(probs, labels)
    monkeypatch.setattr(import_module("surefoot.metrics.canonical_ece"), "_BLOCK", 7)
    torch.testing.assert_close(canonical_ece(probs, labels), whole)


def test_weights_are_repeated_rows() -> None:
    probs, labels = made(60)
    weights = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(1))
    wanted = canonical_ece(probs.repeat_interleave(weights, 0), labels.repeat_interleave(weights))
    torch.testing.assert_close(canonical_ece(probs, labels, weights), wanted)


def test_what_the_top_label_hides() -> None:
    """The likelier class is right as often as it says; the other two are confused with each other."""
    source = torch.Generator().manual_seed(0)
    probs = torch.tensor([[0.6, 0.4, 0.0], [0.6, 0.0, 0.4]], dtype=torch.float64).repeat(500, 1)
    probs = (probs + 0.01) / 1.03
    swapped = probs[:, [0, 2, 1]]
    labels = torch.multinomial(swapped, 1, generator=source).squeeze(1)
    right = torch.multinomial(probs, 1, generator=source).squeeze(1)
    assert canonical_ece(probs, labels) > 0.6
    assert canonical_ece(probs, right) < 0.1


def test_edges() -> None:
    assert canonical_ece([[0.25, 0.75]], [1]).isnan()
    with pytest.raises(OptionError, match="Expected a bandwidth > 0, but got 0"):
        canonical_ece([[0.25, 0.75], [0.5, 0.5]], [1, 0], bandwidth=0.0)
