"""Made-up tables: as large, as rare and as hard as asked for."""

from __future__ import annotations

import pytest
import torch

from surefoot.data import make_classification
from surefoot.errors import InputError


def test_sizes_and_shares() -> None:
    splits = make_classification(rare=1 / 21, flipped=0.0, seed=3)
    assert [len(splits[name]) for name in ("train", "calibration", "test")] == [2000, 1000, 4000]
    labels = torch.cat([splits[name].labels for name in ("train", "calibration", "test")])
    assert labels.double().mean().item() == pytest.approx(1 / 21, abs=0.002)
    assert splits.input_shape == (20,)


def test_the_seed_determines_everything() -> None:
    one, same, other = (make_classification(n_test=100, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.train.inputs, same.train.inputs)
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_a_larger_separation_is_easier() -> None:
    """The nearest mean of a class errs less often."""
    wrong = []
    for separation in (0.5, 3.0):
        data = make_classification(separation=separation, classes=3, rare=1 / 3, flipped=0.0)
        means = torch.stack([data.train.inputs[data.train.labels == k].mean(0) for k in range(3)])
        wrong.append((torch.cdist(data.test.inputs, means).argmin(1) != data.test.labels).double().mean().item())
    assert wrong[1] < wrong[0]


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(InputError, match="Expected classes ≥ 2 and rare"):
        make_classification(rare=0.6)
    with pytest.raises(InputError, match="Expected numbers that make_classification takes, but: "):
        make_classification(features=5)
