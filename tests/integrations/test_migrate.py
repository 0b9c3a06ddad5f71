"""What the page for users of other packages says about numbers, checked with those packages."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from torch import nn
from torch.nn.functional import cross_entropy

import surefoot as sf

BATCHES = [(torch.randn(20, 5, generator=torch.Generator().manual_seed(i)), torch.arange(20) % 3) for i in range(6)]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


def test_sam_makes_the_steps_of_pytorch_optimizer() -> None:
    package = pytest.importorskip("pytorch_optimizer", reason="an optional oracle: pip install 'surefoot[oracles]'")
    theirs, ours = network(), network()
    peer = package.SAM(theirs.parameters(), torch.optim.AdamW, rho=0.05, lr=1e-2)
    optimizer = sf.SAM(torch.optim.AdamW(ours.parameters(), lr=1e-2), ours, rho=0.05)
    for inputs, labels in BATCHES:

        def closure(inputs: torch.Tensor = inputs, labels: torch.Tensor = labels) -> torch.Tensor:
            loss = cross_entropy(theirs(inputs), labels)
            loss.backward()
            return loss

        closure()
        peer.step(closure)
        peer.zero_grad()
        optimizer.step(lambda x=inputs, y=labels: cross_entropy(ours(x), y, reduction="none"))
    for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(next(ours.parameters()), next(network().parameters()), atol=1e-3)


def test_sam_makes_the_steps_of_two_passes_by_hand() -> None:
    """The loop of davda54/sam: up by ρ g/‖g‖, a second gradient, back, and a step of the base."""
    theirs, ours = network(), network()
    base = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
    optimizer = sf.SAM(torch.optim.SGD(ours.parameters(), lr=0.1, momentum=0.9), ours, rho=0.05)
    for x, y in BATCHES:
        base.zero_grad()
        cross_entropy(theirs(x), y).backward()
        before = copy.deepcopy(theirs.state_dict())
        norm = torch.stack([p.grad.norm() for p in theirs.parameters() if p.grad is not None]).norm()
        with torch.no_grad():
            for p in theirs.parameters():
                p.add_(p.grad * (0.05 / (norm + 1e-12)))
        base.zero_grad()
        cross_entropy(theirs(x), y).backward()
        theirs.load_state_dict(before)
        base.step()
        optimizer.step(lambda x=x, y=y: cross_entropy(ours(x), y, reduction="none"))
    for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_binary_calibration_error_is_the_classwise_one() -> None:
    from torchmetrics.functional.classification import binary_calibration_error

    draw = torch.Generator().manual_seed(0)
    p = torch.rand(500, generator=draw, dtype=torch.float64)
    happened = (torch.rand(500, generator=draw) < p**2).long()
    theirs = binary_calibration_error(p, happened, n_bins=15).item()
    columns = torch.stack([1 - p, p], 1)
    assert sf.classwise_ece(columns, happened).item() == pytest.approx(theirs, abs=1e-12)
    assert sf.ece(columns, happened).item() != pytest.approx(theirs, abs=1e-3)


def test_isotonic_has_the_values_of_scikit_learn_and_brier_is_twice_theirs() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 400)
    happened = (rng.uniform(size=400) < p**2).astype(int)
    columns = np.stack([1 - p, p], 1)
    fitted = sf.calibrate(probs=columns, labels=happened, method="isotonic:smoothing=0").calibrator
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p, happened).predict(p)
    assert np.asarray(fitted.probs(np.log(columns)))[:, 1] == pytest.approx(theirs, abs=1e-6)
    assert sf.brier(columns, happened).item() == pytest.approx(2 * brier_score_loss(happened, p))
