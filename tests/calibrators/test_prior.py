"""Prior correction: Bayes' rule by hand, and shares found without labels."""

import numpy as np
import pytest

from surefoot.calibrators import fit
from surefoot.calibrators.prior import correct_prior, em_prior, estimate_prior, fit_prior
from surefoot.errors import InputError, OptionError
from surefoot.schema import Predictions


def shifted(n: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two normal classes two apart; probabilities as if both were as frequent."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < share).astype(int)
    x = rng.normal(size=n) + 2 * labels
    p = 1 / (1 + np.exp(-2 * (x - 1)))
    return np.stack([1 - p, p], 1), labels


def slow_em(probs: np.ndarray, prior: list[float], weights: list[float], rounds: int) -> list[float]:
    """Saerens et al. equation 2.9, row by row."""
    current = list(prior)
    for _ in range(rounds):
        totals = [0.0] * len(prior)
        for row, w in zip(probs, weights, strict=True):
            corrected = [q / p * each for q, p, each in zip(current, prior, row, strict=True)]
            for k, value in enumerate(corrected):
                totals[k] += w * value / sum(corrected)
        current = [total / sum(weights) for total in totals]
    return current


def test_em_is_the_published_iteration() -> None:
    rng = np.random.default_rng(1)
    probs, prior = rng.dirichlet([0.4, 0.3, 0.3], 60), np.array([0.2, 0.3, 0.5])
    weights = rng.integers(1, 4, 60).astype(float)
    found, rounds = em_prior(probs, prior, weights)
    np.testing.assert_allclose(found, slow_em(probs, list(prior), list(weights), rounds), atol=1e-12)
    repeated, _ = em_prior(np.repeat(probs, weights.astype(int), 0), prior)
    np.testing.assert_allclose(found, repeated, atol=1e-12)


def test_em_finds_a_prior_without_labels() -> None:
    probs, labels = shifted(20_000, 0.1)
    found = estimate_prior(probs, np.array([0.5, 0.5]))
    assert found[1] == pytest.approx(labels.mean(), abs=0.01)
    repaired = correct_prior(np.array([0.5, 0.5]), found).probs(np.log(probs))
    assert repaired[:, 1].mean() == pytest.approx(found[1], abs=1e-6)  # what EM ends at


def test_correction_is_bayes_rule() -> None:
    fixed = correct_prior(np.array([0.5, 0.25, 0.25]), np.array([0.2, 0.2, 0.6]))
    wanted = np.array([0.6 * 0.4, 0.3 * 0.8, 0.1 * 2.4])
    np.testing.assert_allclose(fixed.probs(np.log([[0.6, 0.3, 0.1]]))[0], wanted / wanted.sum(), atol=1e-12)


@pytest.mark.parametrize("shares", [[0.5, 0.5], [1.0, 0.0, 0.0], [0.5, 0.5, np.nan]])
def test_shares_that_are_none(shares: list[float]) -> None:
    with pytest.raises(InputError, match="Expected a share above 0 for each of 3 classes, but got"):
        em_prior(np.full((4, 3), 1 / 3), np.array(shares))
    with pytest.raises(
        InputError, match=r"Expected probabilities \(n, classes\) of at least one row, but got \(0, 2\)"
    ):
        em_prior(np.empty((0, 2)), np.array([0.5, 0.5]))


def test_four_ways_to_say_it() -> None:
    probs, labels = shifted(20_000, 0.1)
    here = Predictions(np.log(probs), labels, "calibration")
    share = labels.mean()
    wanted = np.log([2 * (1 - share), 2 * share])

    def steps(method: str) -> float:
        return float(np.diff(fit(method, here).log_weight)[0])

    assert steps("prior:train=0.5/0.5") == pytest.approx(np.diff(wanted)[0], abs=1e-9)
    assert steps("prior") == pytest.approx(np.diff(wanted)[0], abs=0.1)  # by NLL
    assert steps("prior:train=0.5/0.5,target=em") == pytest.approx(np.diff(wanted)[0], abs=0.1)
    assert steps("prior:train=1/1,target=9/1") == pytest.approx(np.log(1 / 9), abs=1e-12)
    assert steps("prior:target=0.5/0.5") == pytest.approx(-np.log(share / (1 - share)), abs=1e-9)
    repaired = fit_prior(here).probs(here.logits)
    np.testing.assert_allclose(repaired.mean(0), [1 - share, share], atol=1e-3)  # where the gradient is zero


def test_what_shares_cannot_be() -> None:
    here = Predictions(np.zeros((4, 2)), np.array([0, 1, 0, 1]), "calibration")
    with pytest.raises(OptionError, match="Expected train beside target=em"):
        fit_prior(here, target="em")
    with pytest.raises(OptionError, match=r"Expected shares of classes such as 0\.9/0\.1, but got 'half'"):
        fit_prior(here, target="half")
    with pytest.raises(InputError, match="Expected a share above 0 for each of 2 classes"):
        fit_prior(here, train="0.5/0.3/0.2")
