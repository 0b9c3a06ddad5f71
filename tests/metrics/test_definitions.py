"""Each metric against its definition, written down a second time and slowly."""

from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.registry import METRICS
from tests.oracles import metrics as oracle


def predictions(seed: int, n: int = 120, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(n_classes, 0.4), n)
    return probs, rng.integers(0, n_classes, n)


def ours(name: str, probs: np.ndarray, labels: np.ndarray, **options: object) -> float:
    return METRICS[name].build(torch.from_numpy(probs), torch.from_numpy(labels), **options).item()


@given(seed=st.integers(0, 10_000), n_bins=st.integers(1, 40), n=st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_binned(seed: int, n_bins: int, n: int) -> None:
    probs, labels = predictions(seed, n)
    assert ours("ece", probs, labels, n_bins=n_bins) == pytest.approx(oracle.ece(*oracle.top(probs, labels), n_bins))
    assert ours("ada_ece", probs, labels, n_bins=n_bins) == pytest.approx(
        oracle.ada_ece(*oracle.top(probs, labels), n_bins)
    )
    assert ours("classwise_ece", probs, labels, n_bins=n_bins) == pytest.approx(
        oracle.classwise_ece(probs, labels, n_bins)
    )


@pytest.mark.parametrize("n_classes", [2, 10, 40])
def test_classwise_ece_with_few_and_many_classes(n_classes: int) -> None:
    probs, labels = predictions(3, 500, n_classes)
    assert ours("classwise_ece", probs, labels) == pytest.approx(oracle.classwise_ece(probs, labels, 15), abs=1e-12)


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
@pytest.mark.parametrize("width", [0.01, 0.4, 3.0])
def test_squared_kce(estimator: str, width: float) -> None:
    probs, labels = predictions(1)
    expected = oracle.squared_kce(*oracle.top(probs, labels), width, estimator)
    assert ours("squared_kce", probs, labels, estimator=estimator, width=width) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
@pytest.mark.parametrize("distance", ["euclidean", "total_variation"])
@pytest.mark.parametrize("width", [None, 0.3])
def test_skce(estimator: str, distance: str, width: float | None) -> None:
    probs, labels = predictions(2, n=1100)  # three blocks
    expected = oracle.skce(probs, labels, width, estimator, distance)
    value = ours("skce", probs, labels, estimator=estimator, distance=distance, width=width)
    assert value == pytest.approx(expected, abs=1e-8)


def test_skce_never_holds_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 0

    def spied(p: torch.Tensor, q: torch.Tensor, distance: str) -> torch.Tensor:
        nonlocal largest
        largest = max(largest, len(p) * len(q))
        return computed(p, q, distance)

    module = import_module("surefoot.metrics.skce")
    computed = module._distances
    monkeypatch.setattr(module, "_distances", spied)
    ours("skce", *predictions(2, n=3000))
    assert 0 < largest <= 512 * 3000


def test_skce_of_two_classes_is_twice_the_top_label_one() -> None:
    """With c the probability of class 1 of 2, ‖p − q‖ = √2 |c − c'| and the residuals are (−r, r)."""
    probs, labels = predictions(4, n=200, n_classes=2)
    r, c = labels - probs[:, 1], probs[:, 1]
    kernel = np.exp(-np.abs(c[:, None] - c[None]) / 0.4)
    expected = 2 * (np.outer(r, r) * kernel).mean()
    assert ours("skce", probs, labels, width=0.4, distance="total_variation") == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.5])
def test_smooth_ece(sigma: float) -> None:
    probs, labels = predictions(5, n=40)
    expected = oracle.smooth_ece(*oracle.top(probs, labels), sigma)
    assert ours("smooth_ece", probs, labels, sigma=sigma) == pytest.approx(expected, abs=3e-6)


def test_smooth_ece_is_its_own_width() -> None:
    probs, labels = predictions(5)
    value = ours("smooth_ece", probs, labels)
    assert ours("smooth_ece", probs, labels, sigma=value) == pytest.approx(value, abs=1e-7)


def test_ranking() -> None:
    probs, labels = predictions(6)
    confidence, correct = oracle.top(probs, labels)
    assert ours("aurc", probs, labels) == pytest.approx(oracle.aurc(confidence, correct))
    assert ours("misclassification_auroc", probs, labels) == pytest.approx(oracle.auroc(confidence, correct == 1))
    areas = [oracle.auroc(probs[:, k], labels == k) for k in range(4)]
    assert ours("auroc", probs, labels) == pytest.approx(np.mean(areas))


def test_threshold_auroc_tends_to_the_exact_one() -> None:
    probs, labels = predictions(7, n=400)
    fine = ours("threshold_auroc", probs, labels, n_thresholds=100_001)
    assert fine == pytest.approx(ours("auroc", probs, labels), abs=1e-4)


def test_auroc_leaves_out_absent_classes() -> None:
    probs, labels = predictions(8)
    labels[labels == 3] = 0
    expected = np.mean([oracle.auroc(probs[:, k], labels == k) for k in range(3)])
    assert ours("auroc", probs, labels) == pytest.approx(expected)


def test_debiased_ece_is_the_mean_of_many_draws() -> None:
    probs, labels = predictions(9, n=600)
    drawn = oracle.debiased_ece(*oracle.top(probs, labels), 15, 200_000, np.random.default_rng(0))
    assert ours("debiased_ece", probs, labels) == pytest.approx(drawn, abs=5e-5)


def test_ties_in_top_k_go_to_the_first_class() -> None:
    probs = torch.tensor([[0.25, 0.25, 0.25, 0.25]]).expand(4, 4)
    labels = torch.arange(4)
    assert [METRICS["top_k_accuracy"].build(probs, labels, k=k).item() for k in range(1, 5)] == [0.25, 0.5, 0.75, 1]
    assert METRICS["accuracy"].build(probs, labels).item() == 0.25
