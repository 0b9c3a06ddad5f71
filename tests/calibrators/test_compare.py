"""Choosing a calibrator by cross-validation."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import skew, t

from surefoot.calibrators.compare import compare_calibrators
from surefoot.calibrators.temperature import fit_temperature
from surefoot.errors import InputError
from surefoot.registry import CALIBRATORS
from surefoot.seeding import generator as seeded
from tests.calibrators.test_contract import choices, made, nll, softmax


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


def test_choices_are_compared_by_what_treats_all_columns_alike() -> None:
    found = compare_calibrators(choices(400, "calibration"))
    assert {each.name for each in found.candidates} == {"none", "temperature", "ets"}
    assert set(found.left_out.values()) == {"columns mean something else in every row"}
    assert found.left_out.keys() == {part.name for part in CALIBRATORS} - {"temperature", "ets"}
    assert found.best == "temperature"


def test_rows_of_weight_0_are_left_out_and_weights_enter_the_scores() -> None:
    data = made(300, "calibration")
    weights = np.random.default_rng(0).integers(0, 4, 300).astype(float)
    found = compare_calibrators(dataclasses.replace(data, weights=weights), ["temperature"])
    without = compare_calibrators(
        dataclasses.replace(data.rows(weights > 0), weights=weights[weights > 0]), ["temperature"]
    )
    assert found.candidates == without.candidates
    plain = next(each for each in found.candidates if each.name == "none")
    repeated = data.rows(np.repeat(np.arange(300), weights.astype(int)))
    p = softmax(repeated.logits)
    assert plain.nll == pytest.approx(nll(p, repeated.labels), abs=1e-12)
    assert plain.accuracy == pytest.approx((p.argmax(1) == repeated.labels).mean(), abs=1e-12)
    even = compare_calibrators(dataclasses.replace(data, weights=np.full(300, 2.0)), ["temperature"])
    alike = compare_calibrators(data, ["temperature"])
    for one, other in zip(even.candidates, alike.candidates, strict=True):
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-6)


def hall(values: np.ndarray) -> tuple[float, float]:
    """Find both ends where Hall's transformed t is Student's, by bisection."""
    n, s, skewness = len(values), values.std(ddof=1), skew(values)

    def transformed(mu: float) -> float:
        x = (values.mean() - mu) / s
        return x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / (6 * n)

    reach = t.ppf(0.975, n - 1) / np.sqrt(n)
    low, high = (brentq(lambda mu, y=y: transformed(mu) - y, -9, 9, xtol=1e-13) for y in (reach, -reach))
    return low, high


def test_the_gain_has_the_interval_of_a_paired_mean() -> None:
    data = made(200, "calibration", sharpen=3.0)
    found = compare_calibrators(data, ["temperature"])
    best = found.candidates[0]
    folds = np.array_split(torch.randperm(200, generator=seeded(0, "folds")).numpy(), 5)
    losses = np.empty((2, 200))
    for fold in folds:
        rest = np.delete(np.arange(200), np.sort(fold))
        for row, p in enumerate((
            fit_temperature(data.rows(rest)).probs(data.logits[fold]),
            softmax(data.logits[fold]),
        )):
            losses[row, fold] = -np.log(p[np.arange(len(fold)), data.labels[fold]])
    apart = losses[0] - losses[1]
    low, high = hall(apart)
    assert (best.change, best.change_low, best.change_high) == pytest.approx((apart.mean(), low, high), abs=1e-9)
    assert f"by {-best.change:.4f} (95 % interval {-high:.4f} to {-low:.4f})" in found.reason


def test_what_would_take_long_is_left_out_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(40, "calibration")
    monkeypatch.setattr("surefoot.calibrators.compare.SLOW", 0.01)
    found = compare_calibrators(data)
    assert "bbq" in found.left_out
    assert found.left_out["bbq"] == "would take long with 40 rows of 4 classes; ask for it by name"
    steps: list[tuple[int, int, str]] = []
    asked = compare_calibrators(data, ["bbq"], n_folds=2, on_step=lambda *step: steps.append(step))
    assert {each.name for each in asked.candidates} == {"none", "bbq"}
    assert steps[:2] == [(0, 3, "bbq"), (1, 3, "bbq")]
    assert steps[-1][:2] == (2, 3)


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
