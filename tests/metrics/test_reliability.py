"""Diagrams, their consistency bars, and the verdict drawn from them."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from scipy.stats import binom

from surefoot.errors import OptionError
from surefoot.metrics import Stream
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._top import top_label
from surefoot.metrics.reliability import consistency, reliability, reliability_of_sums
from surefoot.metrics.verdict import verdict, verdict_of_sums
from tests.metrics.test_bootstrap import predictions


def test_bins() -> None:
    diagram = reliability(torch.tensor([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]]), torch.tensor([0, 1, 1]), n_bins=4)
    assert diagram.count == [0, 0, 2, 1]
    assert diagram.confidence == [None, None, 0.75, 1.0]
    assert diagram.accuracy == [None, None, 0.5, 1.0]
    assert json.loads(json.dumps(dataclasses.asdict(diagram)))["count"] == [0, 0, 2, 1]


def test_bars_are_binomial_quantiles() -> None:
    diagram = reliability_of_sums(torch.tensor([[40.0], [30.0], [20.0]]), level=0.9)
    assert diagram.low == [binom.ppf(0.05, 40, 0.75) / 40]
    assert diagram.high == [binom.ppf(0.95, 40, 0.75) / 40]
    assert diagram.outside == [0]


@pytest.mark.parametrize("p", [0.0, 1e-38, 1e-6, 1 - 1e-16, 1.0])
def test_bars_of_bins_that_are_nearly_certain(p: float) -> None:
    diagram = reliability_of_sums(torch.tensor([[500.0], [500 * p], [0.0]], dtype=torch.float64))
    assert diagram.low == [binom.ppf(0.025, 500, p) / 500]
    assert diagram.high == [binom.ppf(0.975, 500, p) / 500]


def test_bars_hold_calibrated_bins_as_often_as_they_say() -> None:
    inside = total = 0
    for seed in range(60):
        diagram = reliability(*predictions(3000, seed=seed))
        filled = sum(count > 0 for count in diagram.count)
        inside += filled - len(diagram.outside)
        total += filled
    assert 0.94 <= inside / total <= 0.99  # of whole numbers of hits, so a little above 95 %


def test_certain_bins_have_no_room() -> None:
    diagram = reliability(torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1]))
    assert (diagram.low[-1], diagram.high[-1], diagram.outside) == (1.0, 1.0, [14])


def test_chance_test_is_right_five_times_in_a_hundred() -> None:
    wrong = 0
    for seed in range(400):
        sums = bin_sums(*top_label(*predictions(500, seed=seed)), 15)
        wrong += consistency(sums, n_resamples=400, generator=torch.Generator().manual_seed(seed)).miscalibrated
    assert 0.02 <= wrong / 400 <= 0.08


def test_too_few_examples_and_miscalibrated_are_told_apart() -> None:
    few = consistency(bin_sums(*top_label(*predictions(100)), 15))
    many = consistency(bin_sums(*top_label(*predictions(20_000, sharpen=1.3)), 15))
    assert few.ece > many.ece / 2  # as large, but
    assert not few.miscalibrated
    assert many.miscalibrated
    assert few.expected == pytest.approx(few.ece, rel=0.5)


@pytest.mark.parametrize(
    ("sharpen", "finding"), [(1.0, "calibrated"), (1.5, "over-confident"), (0.6, "under-confident")]
)
def test_verdict(sharpen: float, finding: str) -> None:
    probs, labels = predictions(4000, sharpen=sharpen)
    found = verdict(probs, labels)
    assert found.finding == finding
    assert found.n == 4000
    assert found.overconfidence + found.underconfidence == pytest.approx(found.ece.estimate)
    assert found.gap.estimate == pytest.approx(found.overconfidence - found.underconfidence)
    assert [each.ece for each in found.classes] == sorted((each.ece for each in found.classes), reverse=True)
    assert sum(each.count for each in found.classes) == 4000


def test_verdict_finds_the_mixed_case() -> None:
    sums = torch.tensor([[5000.0, 5000.0], [2000.0, 4500.0], [2500.0, 4000.0]])
    assert verdict_of_sums(sums).finding == "mixed"


def test_verdict_from_streams_is_the_same() -> None:
    probs, labels = predictions(1000, sharpen=1.5)
    streams = Stream("ece"), Stream("classwise_ece")
    for stream in streams:
        for rows in torch.arange(1000).split(300):
            stream.update(probs[rows], labels[rows])
    streamed, whole = verdict_of_sums(*(stream.sums for stream in streams)), verdict(probs, labels)
    assert streamed.finding == whole.finding
    assert streamed.ece.low == pytest.approx(whole.ece.low)
    assert [each.label for each in streamed.classes] == [each.label for each in whole.classes]
    assert np.allclose([each.gap for each in streamed.classes], [each.gap for each in whole.classes])


def test_errors() -> None:
    with pytest.raises(OptionError, match="Expected a level between 0 and 1, but got 2"):
        reliability_of_sums(torch.ones(3, 2), level=2)


@pytest.mark.parametrize("seed", range(40))
def test_finding_and_interval_of_the_gap_never_contradict_each_other(seed: int) -> None:
    """Few examples, slightly too sure: the ECE alone often cannot tell what the gap can."""
    probs, labels = predictions(150, sharpen=1.3, seed=seed)
    found = verdict(probs, labels)
    side = "over-confident" if found.gap.low > 0 else "under-confident" if found.gap.high < 0 else None
    assert found.finding == side or (side is None and found.finding in ("calibrated", "mixed"))
