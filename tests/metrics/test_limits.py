"""What metrics tend to as predictions are sharpened to certainty or flattened to nothing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.registry import METRICS
from tests.metrics.test_bootstrap import predictions


def value(name: str, probs: torch.Tensor, labels: torch.Tensor) -> float:
    return METRICS[name].build(probs, labels).item()


@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_certainty(seed: int) -> None:
    """When every confidence is 1, every calibration error of the top label is the error rate."""
    probs, labels = predictions(200, seed=seed)
    certain = torch.nn.functional.one_hot(probs.argmax(1), 10).double()
    wrong = 1 - value("accuracy", certain, labels)
    for name in ("ece", "mce", "rms_ce", "ada_ece", "overconfidence", "confidence_gap", "kce"):
        assert value(name, certain, labels) == pytest.approx(wrong), name
    assert value("smooth_ece", certain, labels) == pytest.approx(wrong, abs=1e-6)
    assert value("classwise_ece", certain, labels) <= 2 * wrong / 10 + 1e-12
    assert value("brier", certain, labels) == pytest.approx(2 * wrong)


@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_indifference(seed: int) -> None:
    """When all classes are as likely, the calibration error is how far accuracy is from chance.

    Groups of equal mass are cut among almost equal confidences, so some may be below chance: theirs do not cancel.
    """
    probs, labels = predictions(200, seed=seed)
    flat = (1e-9 * probs.log()).softmax(1)
    gap = abs(value("accuracy", probs, labels) - 0.1)
    for name in ("ece", "mce", "kce"):
        assert value(name, flat, labels) == pytest.approx(gap, abs=1e-6), name
    assert value("ada_ece", flat, labels) >= gap - 1e-6
    assert value("entropy", flat, labels) == pytest.approx(2.302585, abs=1e-5)


@given(seed=st.integers(0, 1000), n_bins=st.integers(1, 50))
@settings(max_examples=25, deadline=None)
def test_orders(seed: int, n_bins: int) -> None:
    """|mean gap| ≤ ECE ≤ RMS ≤ MCE; and the best order has no excess."""
    probs, labels = predictions(150, sharpen=1.5, seed=seed)
    errors = [METRICS[name].build(probs, labels, n_bins=n_bins).item() for name in ("ece", "rms_ce", "mce")]
    assert abs(value("confidence_gap", probs, labels)) <= errors[0] + 1e-12
    assert errors == sorted(errors)
    assert 0 <= value("e_aurc", probs, labels) <= value("aurc", probs, labels)
