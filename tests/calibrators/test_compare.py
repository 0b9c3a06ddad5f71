"""Choosing a calibrator by cross-validation."""

import math

import pytest
import torch

from surefoot.calibrators.compare import compare_calibrators
from surefoot.errors import InputError
from tests.calibrators.test_contract import made


def test_one_number_is_enough_for_one_mistake() -> None:
    found = compare_calibrators(made(1500, "calibration", sharpen=3.0))
    assert found.best == "temperature"
    assert found.calibrator is not None
    assert found.calibrator.temperature == pytest.approx(3, rel=0.15)
    assert "lowers the NLL from" in found.reason
    assert [each.nll for each in found.candidates] == sorted(each.nll for each in found.candidates)
    assert found.candidates[0].above_best == 0


def test_nothing_to_repair() -> None:
    found = compare_calibrators(made(1500, "calibration", sharpen=1.0), ["temperature", "platt"])
    assert found.best == "none"
    assert found.calibrator is None
    assert "leave the predictions as they are" in found.reason


def test_a_wrong_class_prior_needs_a_bias() -> None:
    data = made(3000, "calibration", sharpen=1.0)
    data.logits[:, 0] += 2
    found = compare_calibrators(data, ["temperature", "vector"])
    assert found.best == "vector"
    assert "further than any other" in found.reason


def test_scores_are_of_examples_not_fitted_on() -> None:
    """Isotonic regression memorises a small set, and must not be rewarded for it."""
    found = compare_calibrators(made(60, "calibration", sharpen=1.0), ["isotonic"])
    assert found.best == "none"


def test_too_many_parameters_are_left_out() -> None:
    found = compare_calibrators(made(60, "calibration", n_classes=9), ["matrix", "temperature", "dirichlet"])
    assert found.left_out == {"matrix": "more parameters than rows", "dirichlet": "more parameters than rows"}
    assert {each.name for each in found.candidates} == {"none", "temperature"}


def test_same_folds_each_time() -> None:
    data = made(200, "calibration")
    first, again = (compare_calibrators(data, ["platt"]).candidates for _ in range(2))
    assert first == again
    other = compare_calibrators(data, ["platt"], generator=torch.Generator().manual_seed(9)).candidates
    assert other != first
    assert all(math.isfinite(each.standard_error) for each in first)


def test_errors() -> None:
    with pytest.raises(InputError, match="Expected 2 to 20 folds for 20 examples, but got 1"):
        compare_calibrators(made(20, "calibration"), n_folds=1)
