"""How often intervals hold the truth: a few cells of ``benchmarks/coverage.py``, small enough for every day."""

from __future__ import annotations

import math

import pytest
import torch

from surefoot.metrics._binning import bin_index
from surefoot.metrics.bootstrap import bootstrap, paired_bootstrap
from surefoot.metrics.chance import chance

REPETITIONS = 200
LEAST = 0.92  # of 95 %: 200 simulations may be off by 3 points and more


class Population:
    """Rows whose labels have known probabilities, and predictions sharpened by s."""

    def __init__(self, classes: int, scale: float, margin: float, sharpen: float, size: int = 4000) -> None:
        source = torch.Generator().manual_seed(0)
        logits = scale * torch.randn(size, classes, generator=source, dtype=torch.float64)
        logits[:, 0] += margin
        self.truth, self.probs = logits.softmax(1), (sharpen * logits).softmax(1)
        confidence, label = self.probs.max(1)
        right = self.truth.gather(1, label[:, None]).squeeze(1)
        self.values = {
            "accuracy": right.mean().item(),
            "confidence_gap": (confidence - right).mean().item(),
            "ece": torch.bincount(bin_index(confidence, 15), confidence - right, 15).abs().sum().item() / size,
            "nll": -torch.xlogy(self.truth, self.probs).sum(1).mean().item(),
            "brier": (self.probs.square().sum(1) + 1 - 2 * (self.truth * self.probs).sum(1)).mean().item(),
        }

    def draw(self, n: int, source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rows of it, which ones, and a label for each."""
        rows = torch.randint(len(self.truth), (n,), generator=source)
        return self.probs[rows], rows, torch.multinomial(self.truth[rows], 1, generator=source).squeeze(1)


CELLS = {
    "two classes, 95 % right, calibrated": (200, Population(2, 2.5, 5.0, 1.0)),
    "ten classes, 85 % right, over-confident": (300, Population(10, 2.0, 5.0, 1.2)),
    "ten classes, 99.5 % right, over-confident": (200, Population(10, 1.0, 8.2, 1.2)),
    "a hundred classes, 93 % right, calibrated": (200, Population(100, 1.5, 10.0, 1.0)),
}


@pytest.mark.parametrize("cell", CELLS)
def test_an_interval_that_is_given_holds_the_truth(cell: str) -> None:
    n, population = CELLS[cell]
    given, held = dict.fromkeys(population.values, 0), dict.fromkeys(population.values, 0)
    source = torch.Generator().manual_seed(1)
    for _ in range(REPETITIONS):
        probs, _, labels = population.draw(n, source)
        for name, truth in population.values.items():
            interval = bootstrap(name, probs, labels)
            assert interval.low <= interval.estimate <= interval.high
            if math.isfinite(interval.low):
                given[name] += 1
                held[name] += interval.low - 1e-12 <= truth <= interval.high + 1e-12
            else:
                assert interval.note.startswith("too few errors (")
    missed = {name: given[name] - held[name] for name in given}
    assert all(count <= (1 - LEAST) * REPETITIONS for count in missed.values()), missed
    assert all(given[name] == REPETITIONS for name in ("accuracy", "confidence_gap", "ece"))


@pytest.mark.parametrize("sharpen", [(1.0, 1.0), (1.6, 1.0), (1.6, 0.6)], ids=str)
def test_a_paired_difference_holds_the_truth(sharpen: tuple[float, float]) -> None:
    a, b = (Population(10, 2.0, 5.0, each) for each in sharpen)
    missed = dict.fromkeys(a.values, 0)
    source = torch.Generator().manual_seed(2)
    for _ in range(REPETITIONS):
        probs, rows, labels = a.draw(400, source)
        for name in missed:
            interval = paired_bootstrap(name, probs, b.probs[rows], labels)
            assert interval.low <= interval.estimate <= interval.high
            missed[name] += not interval.low - 1e-12 <= a.values[name] - b.values[name] <= interval.high + 1e-12
    assert all(count <= (1 - LEAST) * REPETITIONS for count in missed.values()), missed


@pytest.mark.parametrize("name", ["smooth_ece", "classwise_ece", "debiased_ece", "kce", "ada_ece"])
def test_an_error_without_interval_says_so_and_has_a_level_of_chance(name: str) -> None:
    population, below, source = CELLS["two classes, 95 % right, calibrated"][1], 0, torch.Generator().manual_seed(3)
    for _ in range(25):
        probs, _, labels = population.draw(100, source)
        found = chance(name, probs, labels, n_resamples=40)
        below += found.estimate <= found.limit
        assert found.expected < found.limit
    assert below >= 20  # 95 % of 25, less three standard deviations
    interval = bootstrap(name, probs, labels)
    assert (interval.low, interval.high, interval.kind) == (-math.inf, math.inf, "none")
    assert "no interval of it is known to cover" in interval.note
    assert interval.estimate == found.estimate
    assert 0.0 in interval  # nothing is excluded


def test_chance_finds_what_is_not_chance() -> None:
    population = Population(10, 2.0, 5.0, 2.0)
    probs, _, labels = population.draw(500, torch.Generator().manual_seed(4))
    for name in ("smooth_ece", "classwise_ece", "debiased_ece", "ece", "brier_calibration"):
        found = chance(name, probs, labels, n_resamples=100)
        assert found.p_value <= 0.02, name
        assert found.estimate > 1.3 * found.limit, name
