"""Weights: a row of weight w is w rows to every metric; intervals know whether it represents or stands for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torch import Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics import (
    Stream,
    bootstrap,
    bootstrap_sums,
    chance,
    consistency,
    from_logits,
    paired_bootstrap,
    reliability,
    verdict,
)
from surefoot.metrics._ranking import average_precision, precision_variance
from surefoot.metrics._weights import kish, worth
from surefoot.metrics.aurc import risk_coverage
from surefoot.metrics.risk import judge_risk, ranking
from surefoot.registry import METRICS, Part

ALL = list(METRICS)
N, K = 90, 5
# What counts whole rows: more copies of all rows are more examples, which have less noise or other pairs.
OF_COUNTS = {"ada_ece", "aurc", "canonical_ece", "debiased_ece", "debiased_rms_ce", "e_aurc", "skce"}
EXACT = [part.name for part in ALL if part.facts.get("interval", "none") != "none"]
Data = tuple[Tensor, Tensor, Tensor]


def names(part: Part) -> str:
    return part.name


every = pytest.mark.parametrize("metric", ALL, ids=names)


@pytest.fixture(scope="module")
def data() -> Data:
    """Rows with many ties, and whole weights from 0 to 4."""
    source = torch.Generator().manual_seed(5)
    probs = (2 * torch.randn(N, K, generator=source, dtype=torch.float64)).softmax(1)
    probs = (probs * 8).round().clamp(min=1) / 8
    probs = probs / probs.sum(1, keepdim=True)
    labels = torch.multinomial(probs.sqrt(), 1, generator=source).squeeze(1)
    return probs, labels, torch.randint(0, 5, (N,), generator=source)


def repeated(data: Data) -> tuple[Tensor, Tensor]:
    probs, labels, weights = data
    return torch.from_numpy(np.repeat(probs.numpy(), weights, 0)), torch.from_numpy(np.repeat(labels.numpy(), weights))


def options_of(metric: Part) -> list[dict[str, str]]:
    kinds = ("biased", "unbiased", "linear") if "estimator" in metric.options else ()
    return [{"estimator": kind} for kind in kinds] or [{}]


@every
def test_whole_weights_are_repeated_rows(metric: Part, data: Data) -> None:
    for options in options_of(metric):
        found = metric.build(*data, **options)
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, metric.build(*repeated(data), **options), rtol=1e-8, atol=1e-9)


@every
def test_rows_of_weight_0_are_left_out(metric: Part, data: Data) -> None:
    probs, labels, _ = data
    weights = torch.linspace(0.0, 2.0, N, dtype=torch.float64).clamp(min=1) * (torch.arange(N) % 3 > 0)
    kept = weights > 0
    found = metric.build(probs, labels, weights)
    torch.testing.assert_close(found, metric.build(probs[kept], labels[kept], weights[kept]))


@every
def test_equal_weights_are_none(metric: Part, data: Data) -> None:
    probs, labels, _ = data
    for options in options_of(metric):
        for weight in (1.0, 0.3):
            found = metric.build(probs, labels, torch.full((N,), weight), **options)
            torch.testing.assert_close(found, metric.build(probs, labels, **options), rtol=1e-8, atol=1e-9)


@every
def test_the_scale_of_weights_is_of_no_account(metric: Part, data: Data) -> None:
    probs, labels, weights = data
    broken = weights.double() + 0.25
    for options in options_of(metric):
        found = metric.build(probs, labels, broken, **options)
        for factor in (1e-6, 7.3):
            torch.testing.assert_close(metric.build(probs, labels, factor * broken, **options), found)
        if metric.name not in OF_COUNTS and options.get("estimator", "biased") == "biased":
            torch.testing.assert_close(metric.build(probs, labels, 3 * weights), metric.build(*data))


@every
def test_from_logits_takes_weights(metric: Part, data: Data) -> None:
    logits = 2 * torch.randn(N, K, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = from_logits(metric.name, logits, data[1], data[2])
    torch.testing.assert_close(found, metric.build(logits.softmax(1), data[1], data[2]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", [part for part in ALL if "sums" in part.facts], ids=names)
def test_streams_take_weights_over_batches_and_ranks(metric: Part, data: Data) -> None:
    probs, labels, weights = data
    ranks = [Stream(metric.name) for _ in range(3)]
    for rank, part in zip((0, 1, 0), torch.arange(N).split(30), strict=True):
        ranks[rank].update(probs[part], labels[part], weights[part])
    ranks[1].update(probs[:2], labels[:2], [0, 0])  # counts for nothing
    ranks[2].update(probs[:2], labels[:2], [0, 0])
    ranks[2].merge(ranks[0])
    ranks[2].merge(ranks[1])
    torch.testing.assert_close(ranks[2].compute(), metric.build(*data), rtol=1e-12, atol=1e-12)


def test_a_stream_takes_weights_of_all_batches_or_of_none(data: Data) -> None:
    probs, labels, weights = data
    stream, other = Stream("ece"), Stream("ece")
    stream.update(probs, labels, weights)
    with pytest.raises(InputError, match=r"Expected weights of every batch or of none, but got both. Pass weights of"):
        stream.update(probs, labels)
    other.update(probs, labels)
    with pytest.raises(InputError, match="of every batch or of none"):
        stream.merge(other)


@pytest.mark.parametrize(
    ("weights", "wrong"),
    [
        ([1.0, -1.0, 1.0], r"-1 in row 1"),
        ([1.0, 1.0, math.nan], r"nan in row 2"),
        ([math.inf, 1.0, 1.0], r"inf in row 0"),
        ([0.0, 0.0, 0.0], r"0 in every row"),
        ([1.0, 1.0], r"shape \(2,\) for 3 rows"),
        ([[1.0], [1.0], [1.0]], r"shape \(3, 1\) for 3 rows"),
    ],
)
def test_other_weights_are_refused_in_one_sentence(weights: list[float], wrong: str) -> None:
    probs, labels = torch.tensor([[0.7, 0.3]]).expand(3, 2), torch.tensor([0, 1, 0])
    match = (
        f"Expected one weight per row, finite, none below 0 and some above, but got {wrong}. Pass how often each row"
    )
    for refused in (
        lambda: METRICS["ece"].build(probs, labels, weights),
        lambda: METRICS["nll"].build(probs, labels, weights),
        lambda: bootstrap("ece", probs, labels, weights),
        lambda: judge_risk(probs[:, 1], labels, weights),
        lambda: ranking(probs[:, 1], labels, weights),
    ):
        with pytest.raises(InputError, match=match):
            refused()


def test_a_metric_of_ones_own_without_weights_is_refused_by_name(
    data: Data, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_weights.py").write_text(
        "def mine(probs, labels):\n    return probs.amax(1).mean()\n\n\n"
        "def better(probs, labels, weights=None):\n"
        "    top = probs.amax(1)\n    return top.mean() if weights is None else (weights * top).sum() / weights.sum()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for refused in (lambda: bootstrap("own_weights:mine", *data), lambda: from_logits("own_weights:mine", *data)):
        with pytest.raises(
            InputError, match=r"Expected a metric that takes weights, but 'own_weights:mine' does not. Let"
        ):
            refused()
    found = bootstrap("own_weights:better", *data).estimate
    assert found == pytest.approx(repeated(data)[0].amax(1).mean().item())


def test_values_are_those_of_scikit_learn() -> None:
    source = np.random.default_rng(0)
    probs = source.dirichlet(np.ones(3), 400)
    labels, weights = source.integers(0, 3, 400), source.lognormal(size=400)
    assert METRICS["nll"].build(probs, labels, weights).item() == pytest.approx(
        log_loss(labels, probs, sample_weight=weights)
    )
    assert METRICS["accuracy"].build(probs, labels, weights).item() == pytest.approx(
        accuracy_score(labels, probs.argmax(1), sample_weight=weights)
    )
    areas = [roc_auc_score(labels == k, probs[:, k], sample_weight=weights) for k in range(3)]
    assert METRICS["auroc"].build(probs, labels, weights).item() == pytest.approx(np.mean(areas))
    risk, event = probs[:, 0].round(1), labels == 0  # with ties
    two = np.stack([1 - risk, risk], 1)
    peer = brier_score_loss(event, risk, sample_weight=weights)
    assert METRICS["brier"].build(two, event.astype(int), weights).item() == pytest.approx(2 * peer)
    auroc, precision = ranking(risk, event, weights)
    assert auroc.estimate == pytest.approx(roc_auc_score(event, risk, sample_weight=weights))
    assert precision.estimate == pytest.approx(average_precision_score(event, risk, sample_weight=weights))


@pytest.mark.parametrize("name", EXACT)
def test_intervals_of_counts_are_those_of_repeated_rows(name: str, data: Data) -> None:
    found = bootstrap(name, *data, weights_are="counts", n_resamples=40)
    assert found == bootstrap(name, *repeated(data), n_resamples=40)
    assert paired_bootstrap(name, data[0], data[0].flip(1), *data[1:], weights_are="counts", n_resamples=40) == (
        paired_bootstrap(name, repeated(data)[0], repeated(data)[0].flip(1), repeated(data)[1], n_resamples=40)
    )


@pytest.mark.parametrize("name", ["ece", "nll", "mce", "kce"])
@pytest.mark.parametrize("kind", ["percentile", "basic"])
def test_draws_of_counts_are_those_of_repeated_rows(name: str, kind: str, data: Data) -> None:
    found = bootstrap(name, *data, weights_are="counts", n_resamples=30, kind=kind)
    assert found == bootstrap(name, *repeated(data), n_resamples=30, kind=kind)


def test_sums_verdicts_and_risks_of_counts_are_those_of_repeated_rows(data: Data) -> None:
    probs, labels, weights = data
    sums, plain = Stream("ece"), Stream("ece")
    sums.update(*data)
    plain.update(*repeated(data))
    for name in ("ece", "accuracy", "confidence_gap", "mce"):
        found = bootstrap_sums(name, sums.sums, weights_are="counts")
        assert found.low == pytest.approx(bootstrap_sums(name, plain.sums).low, rel=1e-12)
        assert found.high == pytest.approx(bootstrap_sums(name, plain.sums).high, rel=1e-12)
    found, wanted = verdict(*data, weights_are="counts"), verdict(*repeated(data))
    assert (found.n, found.finding, found.accuracy) == (wanted.n, wanted.finding, wanted.accuracy)
    assert found.reliability.count == wanted.reliability.count
    assert found.reliability.high == wanted.reliability.high
    assert reliability(*data, weights_are="counts").low == reliability(*repeated(data)).low
    assert consistency(sums.sums, weights_are="counts").limit == pytest.approx(consistency(plain.sums).limit, rel=1e-12)
    risk, event = probs[:, 0], labels == 0
    of_rows = risk.repeat_interleave(weights), event.repeat_interleave(weights)
    assert judge_risk(risk, event, weights, weights_are="counts").gap.low == pytest.approx(judge_risk(*of_rows).gap.low)
    assert ranking(risk, event, weights, weights_are="counts") == ranking(*of_rows)
    for name in ("ada_ece", "mce", "classwise_ece"):
        assert chance(name, *data, weights_are="counts", n_resamples=5) == chance(name, *repeated(data), n_resamples=5)


def test_counts_must_be_whole_numbers(data: Data) -> None:
    probs, labels, _ = data
    half = torch.full((N,), 0.5)
    stream = Stream("ece")
    stream.update(probs, labels, half)
    with pytest.raises(InputError, match=r"Expected whole numbers where weights are counts, but got 0.5 in row 0. Say"):
        bootstrap("nll", probs, labels, half, weights_are="counts")
    with pytest.raises(InputError, match=r"Expected whole numbers where weights are counts, but 90 are none. Say"):
        bootstrap_sums("ece", stream.sums, weights_are="counts")
    with pytest.raises(OptionError, match="Expected weights_are importance or counts, but got 'frequency'"):
        bootstrap("nll", probs, labels, half, weights_are="frequency")


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("weight", [1.0, 2.0, 0.01])
def test_equal_weights_represent_as_many_rows_as_there_are(name: str, weight: float, data: Data) -> None:
    probs, labels, _ = data
    found = bootstrap(name, probs, labels, torch.full((N,), weight), n_resamples=40)
    wanted = bootstrap(name, probs, labels, n_resamples=40)
    loose = 0.01 if name == "aurc" else 1e-6  # which counts whole rows
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (wanted.estimate, wanted.low, wanted.high), rel=loose, abs=1e-9
    )


def test_equal_weights_change_no_verdict_and_no_risk(data: Data) -> None:
    probs, labels, _ = data
    equal = torch.full((N,), 0.01)
    found, wanted = verdict(probs, labels, equal), verdict(probs, labels)
    assert (found.n, found.finding) == (N, wanted.finding)
    assert found.ece.high == pytest.approx(wanted.ece.high)
    assert found.consistency.p_value == pytest.approx(wanted.consistency.p_value)
    assert found.reliability.count == pytest.approx(wanted.reliability.count)
    assert [each.count for each in found.classes] == [each.count for each in wanted.classes]
    risk, event = probs[:, 0], labels == 0
    judged, plain = judge_risk(risk, event, equal), judge_risk(risk, event)
    assert (judged.n, judged.events) == (plain.n, plain.events)
    for mine, its in ((judged.rate, plain.rate), (judged.gap, plain.gap)):
        assert (mine.low, mine.high) == pytest.approx((its.low, its.high))
    for mine, its in zip(ranking(risk, event, equal), ranking(risk, event), strict=True):
        assert (mine.low, mine.high) == pytest.approx((its.low, its.high), abs=0.02)


def test_uneven_weights_widen_intervals(data: Data) -> None:
    probs, labels, _ = data
    uneven = torch.randn(N, generator=torch.Generator().manual_seed(2)).mul(1.5).exp()
    for name in ("accuracy", "confidence_gap"):
        found, plain = (bootstrap(name, probs, labels, each) for each in (uneven, None))
        assert found.high - found.low > 1.3 * (plain.high - plain.low)
        assert found.low <= found.estimate <= found.high


def test_effective_numbers() -> None:
    weights, hits = torch.tensor([1.0, 9.0], dtype=torch.float64).repeat_interleave(5000), torch.arange(10_000) % 2 == 0
    parts = weights.sum(), weights[hits].sum(), weights.square().sum(), weights[hits].square().sum()
    assert kish(weights) == pytest.approx(500**2 / (50 + 50 * 81) * 100)
    assert worth(*parts).item() == pytest.approx(kish(weights), rel=1e-3)  # hits and misses weigh alike
    none = parts[0], torch.zeros(()), parts[2], torch.zeros(())
    assert worth(*none).item() == pytest.approx(kish(weights), rel=1e-3)
    heavy = weights > 1  # hits weigh nine times as much
    n = worth(parts[0], weights[heavy].sum(), parts[2], weights[heavy].square().sum()).item()
    variance = ((weights * (heavy.double() - 0.9)).square().sum() / 50_000**2).item()
    assert n == pytest.approx(0.9 * 0.1 / variance, rel=0.02)


def test_the_variance_of_average_precision_is_that_of_its_derivatives() -> None:
    source = torch.Generator().manual_seed(3)
    positive, negative = (torch.rand(n, generator=source, dtype=torch.float64) for n in (12, 20))
    weights = [torch.rand(n, generator=source, dtype=torch.float64) + 0.1 for n in (12, 20)]
    expected = 0.0
    for side in (0, 1):
        for row in range(len(weights[side])):
            moved = [each.clone() for each in weights]
            moved[side][row] += 1e-6
            rise = average_precision(positive, negative, tuple(moved)) - average_precision(
                positive, negative, tuple(weights)
            )
            expected += (weights[side][row] * rise / 1e-6).item() ** 2
    assert precision_variance(positive, negative, tuple(weights))[0] == pytest.approx(expected, rel=1e-4)


def test_the_risk_coverage_curve_of_weights_goes_through_that_of_repeated_rows() -> None:
    confidence, correct = torch.tensor([0.9, 0.5, 0.7]), torch.tensor([True, False, True])
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    plain = risk_coverage(confidence.repeat_interleave(weights.long()), correct.repeat_interleave(weights.long()))
    torch.testing.assert_close(risk_coverage(confidence, correct, weights), plain[[0, 3, 5]])


@pytest.mark.parametrize("name", ["debiased_ece", "debiased_rms_ce", "ece", "mce", "rms_ce"])
def test_what_chance_makes_of_uneven_weights_is_finite(name: str) -> None:
    rng = np.random.default_rng(2)
    logits, labels = 3 * rng.standard_normal((2000, 4)), rng.integers(0, 4, 2000)
    logits[np.arange(2000), labels] += 2
    weights = rng.lognormal(size=2000)
    probs = torch.from_numpy(logits).softmax(1)
    found = chance(name, probs, torch.from_numpy(labels), torch.from_numpy(weights))
    assert 0 < found.expected < found.limit < 1
    assert math.isfinite(found.estimate)


def test_bins_of_hits_alone_have_no_noise_however_weights_are_rounded() -> None:
    finish = METRICS["debiased_ece"].facts["finish"]
    count = torch.tensor([3.0, 7.0], dtype=torch.float64)
    hits = count * (1 + 4e-16)
    assert hits[0] > count[0]
    rest = torch.stack([count, count, count, 0 * count])
    sums = torch.cat([torch.stack([count, 0.75 * count, hits]), rest])
    assert finish(sums).item() == pytest.approx(0.25)  # all are right at 75 %: the plain ECE
