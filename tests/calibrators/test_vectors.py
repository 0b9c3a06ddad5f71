"""Calibrators on six predictions with known answers, and against other implementations."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.calibration import _TemperatureScaling
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from surefoot.calibrators._scale import best_scale
from surefoot.calibrators.bbq import _prune, average_binnings, bin_equally
from surefoot.calibrators.beta import beta_logit, fit_beta
from surefoot.calibrators.dirichlet import Dirichlet, fit_dirichlet, odir_penalty
from surefoot.calibrators.ets import EnsembleTemperature, fit_ets
from surefoot.calibrators.histogram import fit_histogram
from surefoot.calibrators.isotonic import fit_isotonic, interpolate, rising_curve
from surefoot.calibrators.matrix import fit_matrix
from surefoot.calibrators.platt import Platt, fit_platt, smoothed_targets
from surefoot.calibrators.refine import choose_epoch, refinement
from surefoot.calibrators.tce import grid_temperature, tce
from surefoot.calibrators.temperature import Temperature, fit_temperature
from surefoot.calibrators.vector import Vector, fit_vector
from surefoot.errors import InputError, OptionError
from surefoot.schema import Predictions
from tests.calibrators.test_contract import made

LOGITS = np.array([[2, 0.5, -1], [0.1, 0.2, 0.3], [3, -2, 0], [-1, 1.5, 1], [0, 0, 4], [1, 0.9, 0.8]])
LABELS = np.array([0, 2, 1, 1, 2, 0])
SIX = Predictions(LOGITS, LABELS, "calibration")
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)


def close(values: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_allclose(values, expected, atol=6e-7)


def nll(probs: np.ndarray, labels: np.ndarray = LABELS) -> float:
    return -np.log(probs[np.arange(len(labels)), labels]).mean()


def test_temperature() -> None:
    close(Temperature(2.0, "calibration").probs(LOGITS)[0], [0.589798, 0.278601, 0.131602])
    fitted = fit_temperature(SIX)
    assert fitted.temperature == pytest.approx(3.467120, abs=1e-6)
    assert nll(fitted.probs(LOGITS)) == pytest.approx(1.026543, abs=1e-6)


@pytest.mark.parametrize(("labels", "expected"), [([0, 1, 2], 0.05), ([1, 2, 0], 20.0)])
def test_temperature_at_its_bounds(labels: list[int], expected: float) -> None:
    fitted = fit_temperature(Predictions(5 * np.eye(3), np.array(labels), "calibration"))
    assert fitted.temperature == pytest.approx(expected, abs=1e-9)


def test_temperature_is_where_the_slope_is_zero() -> None:
    data = made(9000, "calibration", sharpen=3.0)  # enough rows for a start from a part of them
    for logits in (data.logits, data.logits.astype(np.float32)):
        t = fit_temperature(Predictions(logits, data.labels, "calibration")).temperature
        z = torch.from_numpy(logits).double()
        slope = ((z / t).softmax(1) * z).sum(1) - z.gather(1, torch.from_numpy(data.labels)[:, None]).squeeze(1)
        assert abs(slope.mean().item()) < 1e-8


def test_tce_both_ways() -> None:
    test = Predictions(LOGITS, LABELS, "test")
    by_nll = tce(SIX, test, by="nll", n_bins=5)
    assert (by_nll.value, by_nll.temperature) == pytest.approx((0.437032, 3.467120), abs=1e-6)
    by_ece = tce(SIX, test, by="ece", n_bins=5)
    assert (by_ece.value, by_ece.temperature) == pytest.approx((0.277137, 0.1), abs=1e-6)
    assert grid_temperature(SIX, by="nll").temperature == 3.5
    with pytest.raises(OptionError, match="Expected by to be nll or ece, but got 'brier'"):
        grid_temperature(SIX, by="brier")


def test_vector() -> None:
    scaled = Vector(np.array([1, 2, 0.5]), np.array([0.1, 0, -0.1]), "calibration")
    close(scaled.probs(LOGITS)[0], [0.714247, 0.237752, 0.048001])


@pytest.mark.parametrize("fit", [fit_vector, fit_matrix])
def test_linear_ones_are_where_the_gradient_is_zero(fit) -> None:
    data = made(700, "calibration")
    fitted = fit_vector(data) if fit is fit_vector else fit_matrix(data, ridge=0)
    residual = fitted.probs(data.logits) - np.eye(4)[data.labels]
    moments = residual * data.logits if fit is fit_vector else residual[:, :, None] * data.logits[:, None]
    assert np.abs(moments.mean(0)).max() < 1e-6
    assert np.abs(residual.mean(0)).max() < 1e-6


def test_linear_with_many_classes_comes_close() -> None:
    data = made(3000, "calibration", n_classes=40)
    fitted = fit_dirichlet(data)
    z = torch.from_numpy(data.logits).log_softmax(1).numpy()
    residual = fitted.probs(data.logits) - np.eye(40)[data.labels]
    gradient = residual.T @ z / 3000 + 2 * 0.01 * fitted.weight * (1 - np.eye(40))
    assert np.abs(gradient).max() < 1e-4


def test_platt() -> None:
    known = Platt(np.array([-2.0, -2.0]), np.array([0.5, -0.5]), "calibration")
    assert known.probs(np.array([[1.0, 0.0]]))[0, 0] == pytest.approx(0.817574, abs=1e-6)
    targets = smoothed_targets(torch.tensor([True] * 4 + [False] * 2))
    assert targets[0].item() == pytest.approx(0.833333, abs=1e-6)
    assert targets[-1].item() == 0.25


def test_platt_solves_its_equations() -> None:
    data = made(800, "calibration", n_classes=2)
    fitted = fit_platt(data)
    f = data.logits[:, 0] - data.logits[:, 1]
    residual = (
        1 / (1 + np.exp(fitted.a[0] * f + fitted.b[0])) - smoothed_targets(torch.from_numpy(data.labels == 0)).numpy()
    )
    assert abs(residual.mean()) < 1e-8
    assert abs((residual * f).mean()) < 1e-7


def test_beta() -> None:
    s = torch.tensor([0.3, 0.7], dtype=torch.float64)
    two, one, half = (torch.tensor(value, dtype=torch.float64) for value in (2.0, 1.0, 0.5))
    close(beta_logit(s.log(), (1 - s).log(), two, one, half).sigmoid().numpy(), [0.174903, 0.729211])


def test_beta_is_logistic_regression_with_rising_terms() -> None:
    data = made(900, "calibration")
    fitted = fit_beta(data, joint=False)
    p = torch.from_numpy(data.logits).softmax(1).numpy()
    for k in range(4):
        features = np.stack([np.log(p[:, k]), -np.log1p(-p[:, k])], 1)
        peer = LogisticRegression(C=1e10, tol=1e-10, max_iter=10_000).fit(features, data.labels == k)
        if (peer.coef_ > 0).all():
            np.testing.assert_allclose([fitted.a[k], fitted.b[k]], peer.coef_[0], atol=1e-3)
        assert fitted.a[k] >= 0
        assert fitted.b[k] >= 0


def test_isotonic() -> None:
    columns = np.array([[2 / 3, 0, 2 / 3, 0, 0, 2 / 3], [0.2, 0.2, 0.2, 1, 0.2, 0.2], [0, 1, 0, 0, 1, 0]]).T
    fitted = fit_isotonic(SIX, smoothing=0.0)
    found = interpolate(torch.from_numpy(fitted.x.copy()), torch.from_numpy(fitted.y.copy()), torch.from_numpy(PROBS))
    np.testing.assert_allclose(found.numpy(), columns, atol=1e-12)
    close(fitted.probs(LOGITS)[0], [0.769231, 0.230769, 0])


@pytest.mark.parametrize("decimals", [2, 15])
def test_isotonic_is_that_of_scikit_learn(decimals: int) -> None:
    """Fitted values and values in between, with many ties and without."""
    rng = np.random.default_rng(decimals)
    for rate in (0.02, 0.3, 0.9, 0.0, 1.0):
        scores = rng.random(400).round(decimals)
        positive = rng.random(400) < rate * (0.5 + scores / 2) if rate < 1 else np.ones(400, bool)
        peer = IsotonicRegression(out_of_bounds="clip").fit(scores, positive.astype(float))
        x, y = rising_curve(scores, positive)
        asked = np.concatenate([scores, rng.random(300), [0.0, 1.0]])
        found = interpolate(*(torch.from_numpy(v)[None] for v in (x, y)), torch.from_numpy(asked)[:, None])
        np.testing.assert_allclose(found[:, 0].numpy(), peer.predict(asked), atol=1e-12)


def test_isotonic_of_scores_many_orders_of_magnitude_apart() -> None:
    """scikit-learn takes scores less than 1e-15 apart for equal, so the max-min formula is the oracle."""
    rng = np.random.default_rng(0)
    scores, positive = np.exp(-700 * rng.random(60)), rng.random(60) < 0.3
    order = scores.argsort()
    before = np.append(0, positive[order].cumsum())
    mean = [[(before[v] - before[u]) / (v - u) if u < v else math.inf for v in range(61)] for u in range(60)]
    wanted = [max(min(mean[u][i + 1 :]) for u in range(i + 1)) for i in range(60)]
    np.testing.assert_allclose(np.interp(scores[order], *rising_curve(scores, positive)), wanted, atol=1e-12)


def test_isotonic_gives_unclaimed_rows_their_own_probabilities() -> None:
    fitted = fit_isotonic(SIX, smoothing=0.0)
    curves = type(fitted)(fitted.x, np.zeros_like(fitted.y), 0.0, "calibration")
    np.testing.assert_allclose(curves.probs(LOGITS), PROBS, atol=1e-12)


def test_histogram() -> None:
    fitted = fit_histogram(SIX, n_bins=5, smoothing=0.0)
    np.testing.assert_allclose(fitted.probs(LOGITS)[[0, 2]], [[0.75, 0.25, 0], [0, 1, 0]], atol=1e-12)


def test_bbq() -> None:
    order = PROBS[:, 0].argsort()
    scores, hits = PROBS[order, 0], (LABELS[order] == 0).astype(float)
    assert bin_equally(scores, hits, 1).log_evidence == pytest.approx(-4.653960, abs=1e-6)
    two = bin_equally(scores, hits, 2)
    assert two.log_evidence == pytest.approx(-2.836525, abs=1e-6)
    assert two.edges == pytest.approx([(scores[2] + scores[3]) / 2])


def test_bbq_never_splits_equal_scores() -> None:
    scores = np.array([0.1, 0.5, 0.5, 0.5, 0.5, 0.9])
    for n_bins in range(1, 6):
        binning = bin_equally(scores, np.array([0, 0, 1, 0, 1, 1.0]), n_bins)
        assert not np.isin(0.5, binning.edges)
        assert len(binning.values) == len(binning.edges) + 1


def test_bbq_is_the_weighted_mean_of_its_binnings() -> None:
    rng = np.random.default_rng(0)
    scores = np.sort(rng.random(40))
    hits = (rng.random(40) < scores).astype(float)
    edges, values = average_binnings(scores, hits)
    kept, weights = _prune([bin_equally(scores, hits, n_bins) for n_bins in range(1, 9)])  # 8 = ⌈40 / 5⌉
    assert len(kept) > 1
    for score in rng.random(50):
        expected = sum(w * b.values[(b.edges < score).sum()] for w, b in zip(weights, kept, strict=True))
        assert values[(edges < score).sum()] == pytest.approx(expected)


def test_dirichlet() -> None:
    close(Dirichlet(2 * np.eye(3), np.zeros(3), "calibration").probs(LOGITS)[0], [0.950330, 0.047314, 0.002356])
    weight, bias = torch.eye(3), torch.tensor([0.3, 0.0, 0.0])
    weight[0, 1], weight[2, 0] = 0.1, 0.2
    assert odir_penalty(weight, bias, odir=1.0, mu=1.0).item() == pytest.approx(0.14)
    assert odir_penalty(weight, bias, odir=1.0, mu=1.0, normalised=True).item() == pytest.approx(0.0383333, abs=1e-6)
    with pytest.raises(OptionError, match="Expected odir ≥ 0 and mu ≥ 0, but got -1 and 0"):
        fit_dirichlet(SIX, odir=-1, mu=0)


def test_dirichlet_minimises_its_loss() -> None:
    data = made(500, "calibration")
    fitted = fit_dirichlet(data, odir=0.05, mu=0.02)
    log_p = torch.from_numpy(data.logits).log_softmax(1)

    def loss(weight: torch.Tensor, bias: torch.Tensor) -> float:
        fit = torch.nn.functional.cross_entropy(log_p @ weight.T + bias, torch.from_numpy(data.labels))
        return (fit + odir_penalty(weight, bias, odir=0.05, mu=0.02)).item()

    weight, bias = torch.from_numpy(fitted.weight.copy()), torch.from_numpy(fitted.bias.copy())
    best, source = loss(weight, bias), torch.Generator().manual_seed(0)
    for _ in range(30):
        shaken = weight + 0.01 * torch.randn(4, 4, generator=source, dtype=torch.float64)
        assert loss(shaken, bias) > best


def test_ets() -> None:
    mixed = EnsembleTemperature(2.0, np.array([0.5, 0.3, 0.2]), "calibration")
    close(mixed.probs(LOGITS)[0], [0.597245, 0.258554, 0.144201])


def test_ets_is_the_best_mixture() -> None:
    data = made(600, "calibration", sharpen=4.0)
    fitted = fit_ets(data, by="mse")
    assert fitted.weights.sum() == pytest.approx(1)
    truth, rng = np.eye(4)[data.labels], np.random.default_rng(0)
    best = ((fitted.probs(data.logits) - truth) ** 2).mean()
    for _ in range(50):
        other = EnsembleTemperature(fitted.temperature, rng.dirichlet([1, 1, 1]), "calibration")
        assert ((other.probs(data.logits) - truth) ** 2).mean() >= best - 1e-9


def test_refinement() -> None:
    four = Predictions(LOGITS[:4], LABELS[:4], "calibration")
    parts = refinement(four)
    assert parts.scale == pytest.approx(0.038575, abs=1e-6)
    assert parts.refinement == pytest.approx(1.097326, abs=1e-6)
    assert parts.calibration == pytest.approx(0.608211, abs=1e-6)
    assert parts.smoothed == pytest.approx(1.097314, abs=1e-6)
    better = refinement(Predictions(LOGITS[:4], np.array([0, 2, 0, 2]), "calibration"))
    assert (better.loss, better.scale) == pytest.approx((0.580537, 1.489432), abs=1e-6)
    assert (better.refinement, better.smoothed) == pytest.approx((0.557647, 0.630787), abs=1e-6)


def test_choose_epoch_looks_through_overconfidence() -> None:
    """The later epoch ranks better but is four times too sure."""
    early = made(800, "calibration", sharpen=1.0)
    noisy = Predictions(
        early.logits + np.random.default_rng(1).normal(size=early.logits.shape), early.labels, "calibration"
    )
    late = Predictions(4 * early.logits, early.labels, "calibration")
    chosen = choose_epoch([noisy, late])
    assert chosen.epoch == 1
    assert chosen.by_loss == 0
    assert chosen.temperature.temperature == pytest.approx(4, rel=0.2)
    assert choose_epoch([noisy, late], smoothed=True).epoch == 1
    with pytest.raises(InputError, match="Expected predictions of at least one epoch, but got none"):
        choose_epoch([])


def test_scale_of_separable_data_is_at_its_bound() -> None:
    z = torch.eye(3, dtype=torch.float64)
    assert best_scale(z, torch.arange(3), 1e-3, 1e3) == pytest.approx(1e3)


def test_temperature_as_scikit_learn_and_a_root_finder() -> None:
    data = made(5000, "calibration", sharpen=2.5, n_classes=10)
    ours = fit_temperature(data).temperature
    assert ours == pytest.approx(1 / _TemperatureScaling().fit(data.logits, data.labels).beta_, abs=1e-6)
    z, z_y = data.logits, data.logits[np.arange(5000), data.labels]

    def slope(beta: float) -> float:
        p = np.exp(beta * (z - z.max(1, keepdims=True)))
        return float(((p * z).sum(1) / p.sum(1) - z_y).mean())

    assert 1 / ours == pytest.approx(brentq(slope, 0.05, 20, xtol=1e-14), abs=1e-10)
