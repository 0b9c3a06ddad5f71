"""Published models: numbers that must come out of their stored predictions."""

from pathlib import Path

import numpy as np
import pytest
import torch

from surefoot.calibrators.tce import tce
from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics import Stream, from_logits
from surefoot.metrics.verdict import verdict
from surefoot.registry import METRICS
from surefoot.schema import Predictions
from tests.oracles import metrics as oracle

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "predictions"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs ../shared/data/predictions beside the repository")


@pytest.fixture(scope="module")
def resnet() -> dict[str, Predictions]:
    with np.load(FOLDER / "resnet50-cifar10.npz") as file:
        return {
            split: Predictions(file[f"{key}_logits"], file[f"{key}_labels"], split)
            for split, key in (("calibration", "val"), ("test", "test"))
        }


@pytest.fixture(scope="module")
def lenet() -> tuple[torch.Tensor, torch.Tensor]:
    with np.load(FOLDER / "lenet5-cifar10.npz") as file:
        return torch.from_numpy(file["predictions"]), torch.from_numpy(file["ground_truth"])


def test_resnet(resnet: dict[str, Predictions]) -> None:
    test = torch.from_numpy(resnet["test"].logits), torch.from_numpy(resnet["test"].labels)
    assert from_logits("accuracy", *test).item() == pytest.approx(0.9502)
    assert fit_temperature(resnet["calibration"]).temperature == pytest.approx(1.06, abs=0.01)
    probs = test[0].double().softmax(1)
    expected = oracle.ece(*oracle.top(probs.numpy(), test[1].numpy()), 15)
    assert METRICS["ece"].build(probs, test[1]).item() == pytest.approx(expected, abs=1e-12)
    assert from_logits("ece", *test).item() == pytest.approx(expected, abs=1e-6)


def test_temperature_helps_the_resnet(resnet: dict[str, Predictions]) -> None:
    plain = from_logits("ece", *(torch.from_numpy(x) for x in (resnet["test"].logits, resnet["test"].labels))).item()
    by_nll, by_ece = (tce(resnet["calibration"], resnet["test"], by=by) for by in ("nll", "ece"))
    assert by_nll.value < plain
    assert by_ece.value < plain
    assert by_ece.temperature in np.round(np.arange(1, 101) / 10, 1)


def test_lenet_in_float32_batches(lenet: tuple[torch.Tensor, torch.Tensor]) -> None:
    probs, labels = lenet
    for name, expected in (
        ("ece", oracle.ece(*oracle.top(probs.double().numpy(), labels.numpy()), 15)),
        ("classwise_ece", oracle.classwise_ece(probs.double().numpy(), labels.numpy(), 15)),
    ):
        stream = Stream(name)
        for rows in torch.arange(10_000).split(777):
            stream.update(probs[rows], labels[rows])
        assert stream.compute().item() == pytest.approx(expected, abs=1e-9)


def test_verdict_on_both(lenet: tuple[torch.Tensor, torch.Tensor], resnet: dict[str, Predictions]) -> None:
    """Both are found to be off, and the intervals hold the estimates."""
    test = torch.from_numpy(resnet["test"].logits).double().softmax(1), torch.from_numpy(resnet["test"].labels)
    for probs, labels in (lenet, test):
        found = verdict(probs, labels)
        assert found.finding in ("over-confident", "under-confident", "mixed")
        assert found.ece.low <= found.ece.estimate <= found.ece.high
        assert found.consistency.p_value < 0.05


@pytest.mark.parametrize("metric", list(METRICS), ids=lambda metric: metric.name)
def test_every_metric_on_real_predictions(metric, lenet: tuple[torch.Tensor, torch.Tensor]) -> None:
    rows = slice(0, 2000)  # SKCE is quadratic
    value = metric.build(lenet[0][rows], lenet[1][rows]).item()
    low, high = metric.facts["range"]
    assert low <= value <= high
