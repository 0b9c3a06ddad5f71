"""The same numbers as other libraries where definitions agree; named differences where they do not."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torchmetrics.functional.classification import multiclass_auroc, multiclass_calibration_error

from surefoot.metrics._ranking import average_precision, false_positive_rate
from surefoot.registry import METRICS
from tests.metrics.test_bootstrap import predictions


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    return predictions(3000, sharpen=1.5)


def ours(name: str, data: tuple[torch.Tensor, torch.Tensor], **options: object) -> float:
    return METRICS[name].build(*data, **options).item()


@pytest.mark.parametrize(("name", "norm"), [("ece", "l1"), ("mce", "max"), ("rms_ce", "l2")])
@pytest.mark.parametrize("n_bins", [10, 15, 30])
def test_binned_as_torchmetrics(name: str, norm: str, n_bins: int, data: tuple[torch.Tensor, torch.Tensor]) -> None:
    peer = multiclass_calibration_error(*data, num_classes=10, n_bins=n_bins, norm=norm)
    assert ours(name, data, n_bins=n_bins) == pytest.approx(peer.item(), abs=1e-6)


def test_differs_from_torchmetrics_at_confidence_one() -> None:
    """Torchmetrics puts a confidence of exactly 1 into a bin of its own; the textbook's last bin (0.9, 1] has it."""
    probs, labels = torch.tensor([[0.05, 0.95], [0.0, 1.0]]), torch.tensor([1, 0])
    assert METRICS["ece"].build(probs, labels, n_bins=10).item() == pytest.approx(0.475)
    peer = multiclass_calibration_error(probs, labels, num_classes=2, n_bins=10)
    assert peer.item() == pytest.approx(0.525)


def test_sums_of_float32_input_are_exact() -> None:
    """Two million equal float32 confidences: nothing is lost in adding them up."""
    n = 2_000_000
    probs = torch.tensor([[0.9, 0.1]]).expand(n, 2)
    labels = (torch.arange(n) % 5 == 0).long()
    exact = abs(torch.tensor(0.9).double().item() - 0.8)
    assert METRICS["ece"].build(probs, labels).item() == pytest.approx(exact, abs=1e-12)


def test_rankings_as_torchmetrics_and_scikit_learn(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    probs, labels = data
    peer = roc_auc_score(labels, probs / probs.sum(1, keepdim=True), multi_class="ovr", average="macro")
    assert ours("auroc", data) == pytest.approx(peer, abs=1e-12)
    coarse = multiclass_auroc(probs, labels, num_classes=10, thresholds=15)
    assert ours("threshold_auroc", data) == pytest.approx(coarse.item(), abs=1e-6)
    confidence, predicted = probs.max(1)
    peer = roc_auc_score(predicted == labels, confidence)
    assert ours("misclassification_auroc", data) == pytest.approx(peer, abs=1e-12)


def test_differs_from_torchmetrics_where_a_probability_is_one() -> None:
    """Torchmetrics' coarse curve starts at threshold 1 instead of at the origin and so loses the first piece."""
    probs, labels = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), torch.tensor([0, 1, 1, 0])
    exact, coarse = (METRICS[name].build(probs, labels).item() for name in ("auroc", "threshold_auroc"))
    assert coarse == pytest.approx(exact)
    assert multiclass_auroc(probs, labels, num_classes=2, thresholds=15).item() < exact - 0.05


def test_scores_as_scikit_learn(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    probs, labels = (tensor.numpy() for tensor in data)
    assert ours("nll", data) == pytest.approx(log_loss(labels, probs))
    two = probs[:, :2] / probs[:, :2].sum(1, keepdims=True)
    binary = torch.from_numpy(two), torch.from_numpy((labels == 1).astype(np.int64))
    assert ours("brier", binary) == pytest.approx(2 * brier_score_loss(binary[1], two[:, 1]))


def test_average_precision_as_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    familiar, strange = rng.normal(1, 1, 300).round(1), rng.normal(0, 1, 200).round(1)
    truth, scores = np.repeat([1, 0], [300, 200]), np.concatenate([familiar, strange])
    found = average_precision(torch.from_numpy(familiar), torch.from_numpy(strange)).item()
    assert found == pytest.approx(average_precision_score(truth, scores), abs=1e-12)


def test_false_positive_rate_is_read_off_the_curve() -> None:
    familiar, strange = torch.arange(20.0), torch.tensor([0.5, 1.0, 5.0])
    assert false_positive_rate(familiar, strange).item() == pytest.approx(2 / 3)  # 19 of 20 are ≥ 1


def test_netcal(data: tuple[torch.Tensor, torch.Tensor]) -> None:
    peers = pytest.importorskip("netcal.metrics", reason="netcal is an optional oracle")
    probs, labels = (tensor.numpy() for tensor in data)
    assert ours("ece", data) == pytest.approx(peers.ECE(15).measure(probs, labels), abs=1e-6)
    assert ours("mce", data) == pytest.approx(peers.MCE(15).measure(probs, labels), abs=1e-6)
    small = probs[:500], labels[:500]
    squared = ours("squared_kce", (data[0][:500], data[1][:500]))
    assert squared**0.5 == pytest.approx(peers.MMCE().measure(*small), abs=1e-6)
