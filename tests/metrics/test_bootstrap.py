"""Intervals: known draws, speed of convergence to known truths, and how often they hold the truth."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from surefoot.errors import InputError, OptionError
from surefoot.metrics import Stream
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._resample import BinnedDraws, multinomial_replicates
from surefoot.metrics._top import top_label
from surefoot.metrics.bootstrap import bootstrap, bootstrap_sums, paired_bootstrap
from surefoot.registry import METRICS, Part
from tests.metrics.test_vectors import LABELS, PROBS


def predictions(n: int, *, sharpen: float = 1.0, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Labels drawn from softmax(z); the predictions are softmax(sharpen · z)."""
    source = torch.Generator().manual_seed(seed)
    z = 2.5 * torch.randn(n, 10, generator=source, dtype=torch.float64)
    labels = torch.multinomial(z.softmax(1), 1, generator=source).squeeze(1)
    return (sharpen * z).softmax(1), labels


def test_vector_of_known_draws() -> None:
    """2,000 resamples by NumPy's default_rng(0) give the reference's quantiles."""
    rng = np.random.default_rng(0)
    drawn = torch.from_numpy(np.stack([rng.integers(0, 6, 6) for _ in range(2000)]))
    sums = BinnedDraws(*top_label(PROBS, LABELS), 5).of_these(drawn)
    values = np.array([METRICS["ece"].facts["finish"](each).item() for each in sums])
    low, high = np.quantile(values, [0.025, 0.975])
    assert (low, high) == pytest.approx((0.239535, 0.702772), abs=1e-6)
    estimate = METRICS["ece"].build(PROBS, LABELS, n_bins=5).item()
    assert (2 * estimate - high, 2 * estimate - low) == pytest.approx((0.230239, 0.693476), abs=1e-6)


def test_sums_of_draws_are_sums_of_the_drawn_examples() -> None:
    probs, labels = predictions(50)
    drawn = torch.randint(50, (7, 50), generator=torch.Generator().manual_seed(1))
    sums = BinnedDraws(*top_label(probs, labels), 15).of_these(drawn)
    for row, each in zip(drawn, sums, strict=True):
        torch.testing.assert_close(each, bin_sums(*top_label(probs[row], labels[row]), 15))


def test_multinomial_replicates_have_the_right_mean_and_variance() -> None:
    sums = bin_sums(*top_label(*predictions(500)), 15)
    drawn = multinomial_replicates(sums, 20_000, torch.Generator().manual_seed(0))
    assert torch.equal(drawn[:, 0].sum(1), torch.full((20_000,), 500.0, dtype=torch.float64))
    torch.testing.assert_close(drawn.mean(0), sums, atol=0.3, rtol=0)
    hits = sums[2]
    torch.testing.assert_close(drawn[:, 2].var(0), hits * (1 - hits / 500), rtol=0.05, atol=0.01)


def test_kinds_are_mirror_images() -> None:
    probs, labels = predictions(300, sharpen=1.5)
    percentile = bootstrap("ece", probs, labels, kind="percentile")
    basic = bootstrap("ece", probs, labels, kind="basic")
    assert basic.low == pytest.approx(2 * percentile.estimate - percentile.high)
    assert basic.high == pytest.approx(2 * percentile.estimate - percentile.low)


def test_interval_of_a_mean_is_the_normal_one() -> None:
    probs, labels = predictions(2000)
    each = METRICS["brier"].facts["each"](probs, labels)
    reach = 1.96 * each.std().item() / math.sqrt(2000)
    interval = bootstrap("brier", probs, labels, n_resamples=4000)
    assert interval.high - interval.low == pytest.approx(2 * reach, rel=0.06)
    assert (interval.low + interval.high) / 2 == pytest.approx(each.mean().item(), abs=reach / 10)


def test_same_generator_same_interval() -> None:
    probs, labels = predictions(200)
    first, again = (bootstrap("ece", probs, labels, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert first == again
    assert first != bootstrap("ece", probs, labels, generator=torch.Generator().manual_seed(6))
    assert bootstrap("ece", probs, labels) == bootstrap("ece", probs, labels)


def test_from_the_sums_of_a_stream() -> None:
    probs, labels = predictions(5000, sharpen=1.4)
    stream = Stream("ece")
    stream.update(probs, labels)
    whole, streamed = bootstrap("ece", probs, labels), bootstrap_sums("ece", stream.sums)
    width = whole.high - whole.low
    assert streamed.estimate == pytest.approx(whole.estimate)
    assert streamed.low == pytest.approx(whole.low, abs=width / 10)
    assert streamed.high == pytest.approx(whole.high, abs=width / 10)


def test_very_many_examples_use_the_sums() -> None:
    probs, labels = predictions(150_000, sharpen=1.2)
    ece, entropy = (
        bootstrap("ece", probs, labels, kind="percentile"),
        bootstrap("entropy", probs, labels, kind="percentile"),
    )
    assert ece.low < ece.estimate < ece.high < ece.low + 0.02
    assert entropy.kind == "normal"
    assert entropy.low < entropy.estimate < entropy.high


@pytest.mark.parametrize("metric", [part for part in METRICS if not part.facts.get("quadratic")], ids=lambda m: m.name)
def test_every_metric_has_an_interval_or_says_why_not(metric: Part) -> None:
    probs, labels = predictions(120, sharpen=2.0)
    low, high = metric.facts["range"]
    drawn = bootstrap(metric.name, probs, labels, n_resamples=40, kind="percentile")
    assert low <= drawn.low < drawn.high <= high
    interval = bootstrap(metric.name, probs, labels, n_resamples=40)
    assert interval.known == (not interval.note)
    assert interval.low <= interval.estimate <= interval.high
    assert not interval.known or low <= interval.low < interval.high <= high
    difference = paired_bootstrap(metric.name, probs, probs, labels, n_resamples=20)
    assert difference.estimate == 0
    assert 0.0 in difference
    same = paired_bootstrap(metric.name, probs, probs, labels, n_resamples=20, kind="percentile")
    assert (same.low, same.estimate, same.high) == (0, 0, 0)


def test_paired_is_narrower_than_unpaired() -> None:
    probs, labels = predictions(1000, sharpen=1.5)
    other = (probs.log() / 1.4).softmax(1)
    paired = paired_bootstrap("nll", probs, other, labels)
    alone = bootstrap("nll", probs, labels)
    assert paired.high - paired.low < 0.5 * (alone.high - alone.low)
    assert paired.low > 0  # sharpened predictions are worse


def test_undefined_draws_are_left_out() -> None:
    probs = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    interval = bootstrap("misclassification_auroc", probs, torch.tensor([0, 0, 1]), n_resamples=200, kind="percentile")
    assert 0 < interval.n_resamples < 200
    few = bootstrap("misclassification_auroc", probs, torch.tensor([0, 0, 1]))
    assert few.note == "too few errors (1 of 3) for an interval"
    all_right = bootstrap("misclassification_auroc", probs, torch.tensor([0, 0, 0]), kind="percentile", n_resamples=20)
    assert all_right.note == "it is not defined on these examples"
    assert bootstrap("misclassification_auroc", probs, torch.tensor([0, 0, 0])).note == "no error among 3"


def test_errors() -> None:
    probs, labels = predictions(20)
    with pytest.raises(OptionError, match="Expected kind auto, percentile or basic, but got 'corrected'"):
        bootstrap("nll", probs, labels, kind="corrected")
    with pytest.raises(OptionError, match="Expected a level between 0 and 1, but got 95"):
        bootstrap("nll", probs, labels, level=95)
    with pytest.raises(OptionError, match="Expected n_resamples ≥ 1, but got 0"):
        bootstrap("nll", probs, labels, n_resamples=0)
    with pytest.raises(InputError, match="Expected a metric of bins, but got 'nll'"):
        bootstrap_sums("nll", torch.ones(3, 15))


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (199, 200), (37, 200)])
def test_the_interval_of_a_share_is_the_exact_one(hits: int, n: int) -> None:
    """SciPy's test of a binomial count gives the same ends."""
    probs = torch.tensor([[0.75, 0.25]]).expand(n, 2)
    interval = bootstrap("accuracy", probs, (torch.arange(n) >= hits).long())
    exact = binomtest(hits, n).proportion_ci(0.95)
    assert (interval.low, interval.high) == pytest.approx((exact.low, exact.high))


def test_the_gap_of_a_constant_confidence_follows_the_accuracy() -> None:
    probs, labels = torch.tensor([[0.75, 0.25]], dtype=torch.float64).expand(40, 2), (torch.arange(40) >= 31).long()
    gap, accuracy = bootstrap("confidence_gap", probs, labels), bootstrap("accuracy", probs, labels)
    assert (gap.low, gap.high) == pytest.approx((0.75 - accuracy.high, 0.75 - accuracy.low))


def test_right_and_wrong_apart_is_wider_than_the_normal_interval_by_little_where_many_are_wrong() -> None:
    probs, labels = predictions(4000, sharpen=1.2)
    interval = bootstrap("nll", probs, labels)
    each = METRICS["nll"].facts["each"](probs, labels)
    reach = 1.96 * each.std().item() / math.sqrt(4000)
    assert reach < (interval.high - interval.low) / 2 < 1.1 * reach
    assert interval.estimate == pytest.approx(each.mean().item())


def test_a_percentile_interval_of_ece_never_holds_the_truth_where_the_default_does() -> None:
    """Resampling adds the bias of ECE once more."""
    for seed in range(20):
        probs, labels = predictions(1000, seed=seed)
        assert bootstrap("ece", probs, labels, kind="percentile", n_resamples=100).low > 0
    assert bootstrap("ece", probs, labels).low == 0
