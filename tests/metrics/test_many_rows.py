"""Inputs of several pieces: the same numbers as a slow loop gives, and faults found in any piece."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.metrics import from_logits
from surefoot.metrics._binning import bin_index, bin_sums
from surefoot.metrics._class_bins import _places, class_bin_sums
from surefoot.metrics._top import checked_top_label, top_label
from surefoot.metrics.classwise_ece import classwise_ece
from surefoot.metrics.ece import ece


def made(n: int, n_classes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Probabilities of which some are 0, 1 or at the edge of a bin."""
    draw = torch.Generator().manual_seed(n)
    probs = (4 * torch.randn(n, n_classes, generator=draw, dtype=torch.float64)).softmax(1)
    probs[::7], probs[::11] = 0.0, 0.0
    probs[::7, 1] = 1.0
    probs[::11] = 0.0
    probs[::11, 0], probs[::11, 2] = 0.2, 0.8
    return probs.to(dtype), torch.randint(n_classes, (n,), generator=draw)


def slow_class_sums(probs: Tensor, labels: Tensor, n_bins: int) -> Tensor:
    """One class after the other, one bin after the other."""
    bins, hit = bin_index(probs, n_bins), labels[:, None] == torch.arange(probs.shape[1])
    here = [bins == m for m in range(n_bins)]
    wide = probs.double()
    return torch.stack([
        torch.stack([(x * each).sum(0) for each in here], 1) for x in (wide * 0 + 1, wide, hit)
    ]).double()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "n_classes"), [(9_001, 101), (100_003, 10), (700, 1000), (3, 4)])
def test_class_bins_are_those_of_the_slow_loop(n: int, n_classes: int, dtype: torch.dtype) -> None:
    probs, labels = made(n, n_classes, dtype)
    found, slow = class_bin_sums(probs, labels, 15), slow_class_sums(probs, labels, 15)
    torch.testing.assert_close(found, slow, rtol=1e-12, atol=1e-12 * n)
    assert torch.equal(found[0], slow[0])
    assert torch.equal(found[2], slow[2])
    expected = ((slow[1] - slow[2]).abs().sum(1) / n).mean().item()
    assert classwise_ece(probs, labels).item() == pytest.approx(expected, abs=1e-12)


def test_transposed_probabilities() -> None:
    probs, labels = made(6_000, 100)
    across = probs.T.contiguous().T
    assert torch.equal(class_bin_sums(across, labels, 15), class_bin_sums(probs, labels, 15))


def test_ece_of_many_rows() -> None:
    probs, labels = made(150_001, 10)
    confidence, correct = checked_top_label(probs, labels)
    slow, right = top_label(probs, labels)
    assert torch.equal(confidence, slow)
    assert torch.equal(correct, right)
    bins = bin_index(slow, 15)
    gaps = [(slow.double() - right.double())[bins == m].sum().abs() for m in range(15)]
    assert ece(probs, labels).item() == pytest.approx(sum(gaps).item() / len(labels), abs=1e-12)
    assert from_logits("ece", probs.log().clamp(min=-100), labels).item() == pytest.approx(
        ece(probs, labels).item(), abs=1e-6
    )


def test_bfloat16_confidences() -> None:
    confidence = torch.tensor([0.25, 0.75, 1.0], dtype=torch.bfloat16)
    assert bin_sums(confidence, torch.tensor([0, 1, 1]), 2).tolist() == [[1, 2], [0.25, 1.75], [0, 2]]


@pytest.mark.parametrize("n_classes", [10, 100])
@pytest.mark.parametrize("fault", [-0.25, float("nan"), float("inf"), 0.5])
def test_a_fault_in_the_last_piece_is_found_and_its_row_named(n_classes: int, fault: float) -> None:
    probs, labels = made(60_000, n_classes)
    row = 59_990
    probs[row] = 1 / n_classes
    probs[row, 3] = fault
    if fault < 0:
        probs[row, 4] += 1 / n_classes - fault  # so that the sum is right
    for metric in (ece, classwise_ece):
        with pytest.raises(InputError, match=f"row {row} sums to"):
            metric(probs, labels)


@pytest.mark.parametrize("n_classes", [10, 100])
def test_infinities_of_both_signs_are_refused_without_a_warning(n_classes: int) -> None:
    probs, labels = made(50, n_classes)
    probs[7, 1], probs[7, 2] = float("inf"), float("-inf")
    for metric in (ece, classwise_ece):
        with pytest.raises(InputError, match="row 7 sums to nan"):
            metric(probs, labels)


def test_negative_zero_is_zero() -> None:
    probs = torch.tensor([[1.0, -0.0]])
    assert class_bin_sums(probs, torch.tensor([0]), 2).tolist() == [
        [[0, 1], [1, 0]],
        [[0, 1], [0, 0]],
        [[0, 1], [0, 0]],
    ]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_places_are_those_of_flatnonzero(n: int, share: float) -> None:
    found = np.random.default_rng(n).random(n) < share
    assert np.array_equal(_places(found), np.flatnonzero(found))
