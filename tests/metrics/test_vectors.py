"""Six predictions of three classes whose every metric is known from independent float64 scripts."""

import math

import pytest
import torch

from surefoot.metrics import Stream
from surefoot.metrics._ranking import area_under_roc
from surefoot.metrics.auroc import _areas, _threshold_sums
from surefoot.metrics.classwise_ece import ece_of_classes
from surefoot.metrics.ood import detect
from surefoot.metrics.skce import median_distance
from surefoot.metrics.smooth_ece import smooth_ece
from surefoot.registry import METRICS

LOGITS = torch.tensor(
    [[2, 0.5, -1], [0.1, 0.2, 0.3], [3, -2, 0], [-1, 1.5, 1], [0, 0, 4], [1, 0.9, 0.8]], dtype=torch.float64
)
PROBS = LOGITS.softmax(1)
LABELS = torch.tensor([0, 2, 1, 1, 2, 0])

VECTORS = [
    ("accuracy", {}, 0.833333),
    ("ece", {"n_bins": 5}, 0.466506),
    ("mce", {"n_bins": 5}, 0.632835),
    ("rms_ce", {"n_bins": 5}, 0.487910),
    ("ada_ece", {"n_bins": 5}, 0.478285),
    ("classwise_ece", {"n_bins": 5}, 0.198936),
    ("nll", {}, 1.310011),
    ("brier", {}, 0.577597),
    ("debiased_rms_ce", {"n_bins": 5}, 0.345463),
    ("smooth_ece", {"sigma": 0.05}, 0.451557),
    ("smooth_ece", {"sigma": 0.1}, 0.409521),
    ("smooth_ece", {}, 0.259400),
    ("misclassification_auroc", {}, 0.2),
    ("auroc", {}, 0.75),
    ("threshold_auroc", {}, 0.75),
    ("aurc", {}, 0.241667),
    ("e_aurc", {}, 0.213889),
    ("squared_kce", {}, 0.067288),
    ("kce", {}, 0.259399),
    ("squared_kce", {"estimator": "unbiased"}, 0.017067),
    ("squared_kce", {"estimator": "linear"}, -0.035498),
    ("skce", {"width": 1.0}, 0.036477),
    ("skce", {"width": 1.0, "estimator": "unbiased"}, -0.071748),
    ("skce", {"width": 1.0, "estimator": "linear"}, 0.043104),
    ("skce", {}, 0.043083),
    ("skce", {"estimator": "unbiased"}, -0.063820),
    ("skce", {"estimator": "linear"}, 0.027696),
    ("top_k_accuracy", {"k": 1}, 0.833333),
    ("top_k_accuracy", {"k": 2}, 0.833333),
    ("top_k_accuracy", {"k": 3}, 1.0),
]


@pytest.mark.parametrize(("name", "options", "expected"), VECTORS)
def test_vector(name: str, options: dict, expected: float) -> None:
    assert METRICS[name].build(PROBS, LABELS, **options).item() == pytest.approx(expected, abs=6e-7)


def test_classwise_ece_of_each_class() -> None:
    stream = Stream("classwise_ece", n_bins=5)
    stream.update(PROBS, LABELS)
    of_classes = ece_of_classes(stream.sums)
    torch.testing.assert_close(of_classes, torch.tensor([0.259901, 0.312152, 0.024756]).double(), atol=6e-7, rtol=0)
    assert of_classes.sum().item() == pytest.approx(0.596809, abs=6e-7)


def test_threshold_auroc_of_each_class() -> None:
    areas = _areas(_threshold_sums(PROBS, LABELS, n_thresholds=15))
    assert areas.tolist() == pytest.approx([0.75, 0.5625, 0.9375])


def test_micro_auroc() -> None:
    positive = torch.nn.functional.one_hot(LABELS, 3).bool()
    assert area_under_roc(PROBS[positive], PROBS[~positive]).item() == pytest.approx(0.777778, abs=6e-7)


def test_median_distance() -> None:
    assert median_distance(PROBS) == pytest.approx(0.732124, abs=6e-7)


def test_mmce_of_four_predictions() -> None:
    squared = METRICS["squared_kce"].build(PROBS[:4], LABELS[:4]).item()
    assert squared == pytest.approx(0.070909, abs=6e-7)
    assert METRICS["kce"].build(PROBS[:4], LABELS[:4]).item() == pytest.approx(0.266288, abs=6e-7)


def test_ood_auroc() -> None:
    assert detect(torch.tensor([0.9, 0.8, 0.6]), torch.tensor([0.7, 0.6])).auroc == 0.75


def test_e_aurc_less_its_limit_formula() -> None:
    r = 1 / 6
    assert METRICS["aurc"].build(PROBS, LABELS).item() - (r + (1 - r) * math.log(1 - r)) == pytest.approx(
        0.226935, abs=1e-6
    )


def test_over_and_underconfidence_are_the_halves_of_ece() -> None:
    over, under, whole, gap = (
        METRICS[name].build(PROBS, LABELS).item()
        for name in ("overconfidence", "underconfidence", "ece", "confidence_gap")
    )
    assert over + under == pytest.approx(whole)
    assert over - under == pytest.approx(gap)


@pytest.mark.parametrize("n_bins", [1, 5, 15, 100])
def test_brier_is_calibration_plus_refinement(n_bins: int) -> None:
    parts = [METRICS[name].build(PROBS, LABELS, n_bins=n_bins) for name in ("brier_calibration", "brier_refinement")]
    assert sum(parts).item() == pytest.approx(0.577597, abs=6e-7)
    assert min(parts) >= 0


def test_entropy_of_the_rows() -> None:
    entropy = METRICS["entropy"].build(LOGITS[:4].softmax(1), LABELS[:4]).item()
    assert entropy == pytest.approx((0.621585 + 1.095287 + 0.228243 + 0.825030) / 4, abs=1e-6)


def test_entropy_of_p_y() -> None:
    p_y = [0.785597, 0.367165, 0.006377, 0.592201]
    expected = sum(-p * math.log(p) - (1 - p) * math.log(1 - p) for p in p_y) / 4
    assert METRICS["true_class_entropy"].build(PROBS[:4], LABELS[:4]).item() == pytest.approx(expected, abs=1e-5)


def test_smooth_ece_with_a_wide_kernel_is_the_confidence_gap() -> None:
    gap = METRICS["confidence_gap"].build(PROBS, LABELS).abs()
    torch.testing.assert_close(smooth_ece(PROBS, LABELS, sigma=10.0), gap)
