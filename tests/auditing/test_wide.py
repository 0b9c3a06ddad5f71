"""Rows of a vocabulary: the softmax is not written down, and everything is as if it were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError

from surefoot.auditing import audit
from surefoot.auditing._counted import ValueSums
from surefoot.auditing._repair import _score, _score_wide
from surefoot.auditing._sampling import Sample, numbers
from surefoot.metrics._wide import OF_WIDE, wide_rows
from surefoot.registry import METRICS
from surefoot.sources import forms


def _made(n=600, words=30, dtype=np.float32):
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((n, words))
    labels = rng.integers(0, words, n)
    logits[np.arange(n), labels] += 5 * (rng.random(n) < 0.7)
    return logits.astype(dtype), labels


@pytest.mark.parametrize(("dtype", "off"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_rows_are_those_of_the_softmax(dtype, off):
    logits, labels = _made(dtype=dtype)
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    found, probs = wide_rows(z, y), z.double().softmax(1)
    for name in OF_WIDE:
        torch.testing.assert_close(found.values(name), METRICS[name].facts["each"](probs, y), rtol=off, atol=off)
    torch.testing.assert_close(found.squares, probs.square().sum(1), rtol=off, atol=0)
    scale = torch.rand(len(y), dtype=torch.float64) + 0.5
    scaled = (z.double() * scale[:, None]).log_softmax(1)
    sharper = wide_rows(z, y, scale)
    torch.testing.assert_close(sharper.log_truth, scaled.gather(1, y[:, None])[:, 0], rtol=off, atol=off)
    torch.testing.assert_close(sharper.confidence, scaled.exp().amax(1), rtol=off, atol=0)


def test_the_first_of_equals_is_predicted_and_large_logits_do_not_overflow():
    logits = torch.tensor([[1e30, 1e30, 0.0], [-1e30, 5.0, 5.0]])
    found = wide_rows(logits, torch.tensor([0, 2]))
    assert found.correct.tolist() == [True, False]
    assert found.confidence.tolist() == [0.5, 0.5]
    torch.testing.assert_close(found.log_truth, torch.full((2,), 0.5, dtype=torch.float64).log())


def _both(monkeypatch, source, **options):
    """Audit without classes being told apart, with the softmax written down and without."""
    monkeypatch.setattr(forms, "MOST_CLASSES", 10)
    (wide,) = audit(source, kind="logits", **options)
    monkeypatch.setattr(forms, "OF_WIDE", ())
    monkeypatch.setattr("surefoot.auditing._repair.is_wide", lambda *_: False)
    (plain,) = audit(source, kind="logits", **options)
    return wide, plain


@pytest.mark.parametrize("weighted", [False, True])
def test_an_audit_is_the_same_as_with_the_softmax(monkeypatch, weighted):
    logits, labels = _made()
    source = {"logits": logits, "labels": labels, "site": np.where(np.arange(600) % 3, "north", "south")}
    told = {"groups": ["site"]}
    if weighted:
        source["weight"] = np.random.default_rng(1).gamma(2.0, size=600)
        told["weights"] = "weight"
    wide, plain = _both(monkeypatch, source, risk=0.2, **told)
    assert wide.sentence() == plain.sentence()
    assert {*wide.measures} == {*plain.measures} >= {"nll", "brier", "accuracy", "ece"}
    for key, each in wide.measures.items():
        other = plain.measures[key]
        assert (each.estimate, each.low, each.high) == pytest.approx((other.estimate, other.low, other.high), abs=2e-6)
    assert wide.repair.temperature == pytest.approx(plain.repair.temperature, rel=1e-9)
    assert (wide.repair.nll, wide.repair.ece.estimate) == pytest.approx(
        (plain.repair.nll, plain.repair.ece.estimate), abs=1e-6
    )
    assert wide.to_json().keys() == plain.to_json().keys()
    for mine, its in zip(wide.slices, plain.slices, strict=True):
        assert (mine.column, mine.value, mine.finding) == (its.column, its.value, its.finding)
        assert (mine.gap.low, mine.gap.high) == pytest.approx((its.gap.low, its.gap.high), abs=1e-6)
    assert wide.thresholds[0].threshold == pytest.approx(plain.thresholds[0].threshold, abs=1e-6)


def test_values_are_those_of_torchmetrics(monkeypatch):
    monkeypatch.setattr(forms, "MOST_CLASSES", 10)
    logits, labels = _made()
    batches = ((z[None], y[None]) for z, y in zip(np.split(logits, 4), np.split(labels, 4), strict=True))
    (found,) = audit(batches, kind="logits")
    z, y = torch.from_numpy(logits), torch.from_numpy(labels)
    ece = MulticlassCalibrationError(30, n_bins=15, norm="l1")(z.softmax(1), y).item()
    accuracy = MulticlassAccuracy(30, average="micro")(z, y).item()
    assert found.measures["ece"].estimate == pytest.approx(ece, abs=1e-6)
    assert found.measures["accuracy"].estimate == pytest.approx(accuracy)
    assert found.measures["nll"].estimate == pytest.approx(torch.nn.functional.cross_entropy(z, y).item(), abs=1e-6)


def test_other_metrics_take_the_softmax(monkeypatch):
    monkeypatch.setattr(forms, "MOST_CLASSES", 10)
    logits, labels = _made()
    (found,) = audit({"logits": logits, "labels": labels}, kind="logits", metrics="top_k_accuracy:k=3,nll")
    ranks = (logits > logits[np.arange(600), labels][:, None]).sum(1)
    assert found.measures["top_k_accuracy:k=3"].estimate == pytest.approx((ranks < 3).mean())


def test_a_repair_of_wide_rows_is_scored_like_others():
    logits, labels = map(torch.from_numpy, _made())
    by, sums = torch.full((600,), 1.7, dtype=torch.float64), []
    for score, wide in ((_score, False), (_score_wide, True)):
        bins, losses = forms.bins_of("multiclass", 15, wide=wide), ValueSums()
        score(logits, by, labels, None, bins, losses)
        sums.append((bins.sums, losses.mean))
    torch.testing.assert_close(sums[0][0], sums[1][0], rtol=1e-6, atol=1e-5)
    assert sums[0][1] == pytest.approx(sums[1][1], abs=1e-6)


def test_a_sample_is_the_rows_with_the_smallest_keys():
    sample, every = Sample("rows"), np.arange(500)
    for some in np.split(every, 10):
        sample.add(20, some, some, some[:, None] * 2)
    rows, double = sample.taken()
    assert rows.tolist() == np.argsort(numbers("rows", every))[:20].tolist()
    assert double[:, 0].tolist() == (2 * rows).tolist()
