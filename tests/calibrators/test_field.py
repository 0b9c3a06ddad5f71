"""Structured matrices, joint curves, mixtures and Venn–Abers: against slow versions and other packages."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from surefoot.calibrators import Calibrator, fit
from surefoot.calibrators.beta import fit_beta
from surefoot.calibrators.ets import fit_ets
from surefoot.calibrators.matrix import fit_matrix
from surefoot.calibrators.platt import fit_platt
from surefoot.calibrators.structured import fit_structured
from surefoot.calibrators.temperature import fit_temperature
from surefoot.calibrators.venn_abers import both_curves, fit_venn_abers
from surefoot.errors import OptionError
from surefoot.schema import Predictions
from tests.calibrators.test_contract import made, nll, softmax


def test_structured_matrix_by_another_minimiser() -> None:
    """softmax((I + D + M) z / T + b), with the published penalties, written down as it is read."""
    data, k = made(400, "calibration", n_classes=3), 3
    n, t = len(data.labels), fit_temperature(data).temperature
    z = (data.logits - data.logits.mean(1, keepdims=True)) / t

    def loss(point: np.ndarray) -> float:
        away, b = point[:9].reshape(3, 3), point[9:]
        p = softmax(z @ (np.eye(3) + away).T + b)
        diagonal, everything = (np.diag(away) ** 2).sum(), (away**2).sum()
        penalty = k / n * diagonal + k * (k - 1) / n * (everything - diagonal) + k / n * (b**2).sum()
        return nll(p, data.labels) + penalty

    found = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-9}).x
    fitted = fit_structured(data)
    np.testing.assert_allclose(fitted.weight * t, np.eye(3) + found[:9].reshape(3, 3), atol=2e-5)
    np.testing.assert_allclose(fitted.bias, found[9:] - found[9:].mean(), atol=2e-5)


def test_structured_matrix_is_between_a_temperature_and_a_free_matrix() -> None:
    data, test = made(200, "calibration", n_classes=12), made(2000, "test", n_classes=12, seed=1)
    held = fit_structured(data, diagonal=1e9, off_diagonal=1e9, intercept=1e9)
    np.testing.assert_allclose(held.probs(test.logits), fit_temperature(data).probs(test.logits), atol=1e-6)
    free = fit_structured(data, diagonal=1e-6, off_diagonal=1e-6, intercept=1e-6)
    scores = [nll(each.probs(test.logits), test.labels) for each in (fit_structured(data), fit_matrix(data), free)]
    assert scores == sorted(scores)
    with pytest.raises(OptionError, match=r"Expected strengths ≥ 0, but got 1\.0, -1\.0 and 1\.0"):
        fit_structured(data, off_diagonal=-1.0)


def test_a_matrix_with_more_entries_than_rows_stays_sane() -> None:
    data, test = made(500, "calibration", n_classes=30), made(1000, "test", n_classes=30, seed=1)
    plain = nll(softmax(test.logits), test.labels)
    assert nll(fit_matrix(data).probs(test.logits), test.labels) < plain + 0.5
    with pytest.raises(OptionError, match="Expected ridge ≥ 0, but got -1"):
        fit_matrix(data, ridge=-1)


@pytest.mark.parametrize("fit_one", [fit_beta, fit_platt])
def test_joint_curves_by_autograd(fit_one) -> None:
    """The NLL of what comes out, with the curves inside, has no slope left; one class against the rest has."""
    data = made(500, "calibration", n_classes=4)
    logits, labels = torch.from_numpy(data.logits), torch.from_numpy(data.labels)

    def slope(fitted: Calibrator) -> float:
        names = [key for key in ("a", "b", "c") if hasattr(fitted, key)]
        values = {key: torch.tensor(getattr(fitted, key), requires_grad=True) for key in names}
        repaired = type(fitted).repair(type("Values", (), values), logits)
        aim = {"a": 1.0, "b": 1.0, "c": 0.0} if "c" in names else {"a": -1.0, "b": 0.0}
        away = sum((values[key] - aim[key]).square().sum() for key in names)
        loss = torch.nn.functional.cross_entropy(repaired, labels) + 4 / (2 * 500) * away
        found = torch.autograd.grad(loss, list(values.values()))
        at_bound = [(value == 0) & (grad > 0) for value, grad in zip(values.values(), found, strict=True)]
        return max(grad[~bound].abs().max().item() for grad, bound in zip(found, at_bound, strict=True))

    assert slope(fit_one(data)) < 1e-6
    assert slope(fit_one(data, joint=False)) > 1e-3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sharpen", [0.3, 1.0, 4.0])
def test_a_mixture_is_never_worse_than_nothing(seed: int, sharpen: float) -> None:
    data = made(40, "calibration", seed=seed, sharpen=sharpen)
    plain, scaled = nll(softmax(data.logits), data.labels), fit_temperature(data).probs(data.logits)
    found = nll(fit_ets(data).probs(data.logits), data.labels)
    assert found <= min(plain, nll(scaled, data.labels)) + 1e-12
    truth = np.eye(4)[data.labels]
    squares = ((fit_ets(data, by="mse").probs(data.logits) - truth) ** 2).sum()
    assert squares <= ((softmax(data.logits) - truth) ** 2).sum() + 1e-9
    with pytest.raises(OptionError, match="Expected by to be nll or mse, but got 'ece'"):
        fit_ets(data, by="ece")


def two(n: int, seed: int, digits: int) -> Predictions:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=n), digits)
    labels = (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)
    return Predictions(np.stack([0 * scores, 1.7 * scores], 1), labels, "calibration")


@pytest.mark.parametrize(("n", "digits"), [(3, 9), (60, 9), (60, 1), (500, 1), (500, 9)])
def test_venn_abers_as_the_package(n: int, digits: int) -> None:
    package = pytest.importorskip("venn_abers")
    data = two(n, n, digits)
    logits = np.concatenate([data.logits, two(200, 1, digits).logits])
    peer = package.VennAbers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(softmax(data.logits), data.labels)
        wanted, _ = peer.predict_proba(softmax(logits))
    np.testing.assert_allclose(fit_venn_abers(data).probs(logits), wanted, atol=1e-12)


def test_venn_abers_is_two_isotonic_regressions_per_new_row() -> None:
    data = made(60, "calibration", n_classes=3)
    weights = np.random.default_rng(0).integers(1, 4, 60).astype(float)
    p, new = softmax(data.logits), softmax(made(25, "test", n_classes=3, seed=1).logits)
    wanted = np.empty_like(new)
    for k in range(3):
        for row, score in enumerate(new[:, k]):
            both = []
            for label in (0.0, 1.0):
                curve = IsotonicRegression().fit(
                    np.append(p[:, k], score), np.append(data.labels == k, label), np.append(weights, 1.0)
                )
                both.append(float(curve.predict([score])[0]))
            wanted[row, k] = both[1] / (1 - both[0] + both[1])
    fitted = fit_venn_abers(Predictions(data.logits, data.labels, "calibration", weights=weights))
    np.testing.assert_allclose(fitted.probs(np.log(new)), wanted / wanted.sum(1, keepdims=True), atol=1e-9)


def test_venn_abers_keeps_what_cannot_be_left_out() -> None:
    places, low, high = both_curves(np.array([0.2, 0.8]), np.array([0.0, 1.0]))
    assert places.tolist() == [0.2, 0.8]
    assert (low.tolist(), high.tolist()) == ([0.0, 0.0, 0.5], [0.5, 1.0, 1.0])


def test_they_have_names() -> None:
    data = made(80, "calibration")
    for name in ("structured", "venn_abers", "prior", "beta:joint=false", "platt:joint=false", "ets:by=mse"):
        assert fit(name, data).name == name.partition(":")[0]
