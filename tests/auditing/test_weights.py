"""Weights in an audit: every number is that of repeated rows, and intervals know what the weights are."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from surefoot.auditing import audit, compare_audits
from surefoot.auditing._counted import ValueSums, Weighing, counted
from surefoot.auditing._measures import SHOWN, measure
from surefoot.auditing._walking import read
from surefoot.auditing.audit import audit_source
from surefoot.auditing.result import Audit
from surefoot.errors import InputError
from surefoot.metrics.mean_losses import Losses
from surefoot.metrics.verdict import verdict_of_sums
from surefoot.sources.source import Raw, Source
from tests.auditing.made import made

SITES = np.array(["oslo", "lima"])
Weights = np.ndarray | None


def source_of(
    logits: np.ndarray,
    labels: np.ndarray,
    weights: Weights = None,
    sites: Weights = None,
    *,
    counts: bool = False,
    ends: Sequence[int] = (),
) -> Source:
    """Rows in memory, a hundred at a time or as many as is said."""

    def start() -> Generator[Raw]:
        for first, last in pairwise([0, *(ends if len(ends) else range(100, len(labels) + 100, 100))]):
            here = slice(first, last)
            groups = {} if sites is None else {"site": sites[here]}
            yield Raw(logits[here], labels[here], groups, None, None if weights is None else weights[here])

    def start_labels() -> Generator[np.ndarray]:
        yield labels

    found = Source("", "", "arrays", "logits", (), "arrays", ((), "labels"), start, start_labels, "from-0")
    return replace(found, weights=None if weights is None else "w", weights_are="counts" if counts else "importance")


def audited(source: Source) -> Audit:
    return audit_source(source, None, "arrays", 15, 0.95, None)[0]


@pytest.fixture(params=[3, 2], ids=["three classes", "two classes"])
def rows(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits, labels, whole weights from 0 to 3, and sites."""
    logits, labels = made(450, request.param, temperature=0.6)
    random = np.random.default_rng(1)
    return logits, labels, random.integers(0, 4, 450).astype(np.float64), SITES[random.integers(0, 2, 450)]


def times(weights: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    return [np.repeat(column, weights.astype(int), axis=0) for column in columns]


def test_counts_are_repeated_rows_in_every_number(rows: tuple[np.ndarray, ...]) -> None:
    logits, labels, weights, sites = rows
    found = audited(source_of(logits, labels, weights, sites, counts=True))
    again, truth, where = times(weights, logits, labels, sites)
    ends = np.cumsum([int(weights[first : first + 100].sum()) for first in range(0, 450, 100)])
    plain = audited(source_of(again, truth, None, where, ends=ends))  # sums round alike
    assert found.notes[0] == f"Each row stands for as many as its weight says: 450 rows count as {len(truth):,}."
    assert replace(found, notes=()).to_json() == replace(plain, notes=()).to_json()


def test_values_are_those_of_repeated_rows(rows: tuple[np.ndarray, ...]) -> None:
    logits, labels, weights, sites = rows
    found = audited(source_of(logits, labels, weights, sites))
    again, truth, where = times(weights, logits, labels, sites)
    wanted = audited(source_of(again, truth, None, where))
    for key, interval in wanted.measures.items():
        assert found.measures[key].estimate == pytest.approx(interval.estimate, rel=1e-9), key
    assert found.verdict.overconfidence == pytest.approx(wanted.verdict.overconfidence)
    assert found.verdict.reliability.accuracy == pytest.approx(wanted.verdict.reliability.accuracy)
    kept = int((weights > 0).sum())
    assert (found.n, found.verdict.n) == (kept, kept)
    assert sum(found.verdict.reliability.count) == pytest.approx(kept)
    for mine, its in zip(found.verdict.classes, wanted.verdict.classes, strict=True):
        assert (mine.label, mine.ece) == (its.label, pytest.approx(its.ece))
    of_sites = {each.value: each.verdict.ece.estimate for each in wanted.slices}
    assert {each.value: each.verdict.ece.estimate for each in found.slices} == pytest.approx(of_sites)
    if found.two_classes and wanted.two_classes:
        mine, its = found.two_classes, wanted.two_classes
        assert mine.risk.reliability.accuracy == pytest.approx(its.risk.reliability.accuracy)
        assert (mine.nll, mine.common) == (pytest.approx(its.nll), its.common)
        assert mine.common_accuracy.estimate == pytest.approx(its.common_accuracy.estimate)
    # Weights of mean 2 that vary are worth fewer rows than there are, and far fewer than repeated ones.
    mine, its = (each.verdict.accuracy.high - each.verdict.accuracy.low for each in (found, wanted))
    assert mine > 1.3 * its


def test_the_curve_of_risk_and_coverage_is_weighted(rows: tuple[np.ndarray, ...]) -> None:
    logits, labels, weights, _ = rows
    found = dict(audited(source_of(logits, labels, weights)).risk_coverage)
    again, truth = times(weights, logits, labels)
    probs = torch.from_numpy(again).double().softmax(1)
    order = probs.amax(1).argsort(descending=True)
    wrong = (probs.argmax(1) != torch.from_numpy(truth)).double()[order].cumsum(0) / torch.arange(1, len(truth) + 1)
    assert len(found) > 90
    assert found[1.0] == pytest.approx(wrong[-1].item())
    for coverage, risk in found.items():
        assert risk == pytest.approx(wrong[round(coverage * len(truth)) - 1].item())


def test_a_note_says_what_the_weights_are_worth() -> None:
    logits, labels = made(400)
    weights = np.where(np.arange(400) % 4 == 0, 0.0, np.where(np.arange(400) % 2, 1.5, 3.0))
    note = audited(source_of(logits, labels, weights)).notes[0]
    effective = weights.sum() ** 2 / (weights**2).sum()
    assert note == (
        "Rows are weighted: 400 rows, of which 100 have a weight of 0 and do not count, with weights that sum to 600 "
        f"tell as much as {effective:.0f} equally weighted ones would; intervals go by that."
    )


def test_equal_weights_change_nothing(rows: tuple[np.ndarray, ...]) -> None:
    logits, labels, _, sites = rows
    found = audited(source_of(logits, labels, np.full(450, 0.002), sites))
    wanted = audited(source_of(logits, labels, None, sites))
    for key, interval in wanted.measures.items():
        mine = found.measures[key]
        assert (mine.estimate, mine.kind) == (pytest.approx(interval.estimate, rel=1e-9), interval.kind), key
        if key != "average_precision":  # one of the two sides is a little heavier by rounding
            assert (mine.low, mine.high) == pytest.approx((interval.low, interval.high), rel=1e-6), key
    for key, chance in wanted.chance.items():
        assert found.chance[key].limit == pytest.approx(chance.limit, rel=1e-6), key
    assert found.verdict.finding == wanted.verdict.finding
    assert found.sentence() == wanted.sentence()


def test_sampled_rows_carry_their_weights() -> None:
    logits, labels = made(3000)
    weights = np.arange(1.0, 3001.0)
    reading = read(source_of(logits, labels, weights), n_bins=15, where="arrays", sampled_values=0)
    assert len(reading.labels) == 2000  # the fewest that are kept
    assert reading.weights is not None
    at = reading.weights.astype(int) - 1
    np.testing.assert_array_equal(reading.logits, logits[at])
    np.testing.assert_array_equal(reading.labels, labels[at])
    assert reading.top_weights is not None
    top = torch.from_numpy(logits).double().softmax(1).amax(1)[reading.top_weights.long() - 1]
    torch.testing.assert_close(reading.confidence, top)


def test_two_files_must_have_the_same_weights(tmp_path: Path) -> None:
    logits, labels = made(300)
    weights = np.linspace(0.5, 2, 300)
    for name, these in (("a", weights), ("b", weights), ("c", weights[::-1]), ("d", None)):
        more = {} if these is None else {"weight": these}
        np.savez(tmp_path / f"{name}.npz", logits=logits * (1.0 if name == "a" else 0.5), labels=labels, **more)
    for other in "cd":
        with pytest.raises(
            InputError, match=rf"Expected the same weights for the same examples, but those of a.npz and {other}"
        ):
            compare_audits(tmp_path / "a.npz", tmp_path / f"{other}.npz")
    found = compare_audits(tmp_path / "a.npz", tmp_path / "b.npz")
    probs = [torch.from_numpy(logits * scale).double().softmax(1) for scale in (1.0, 0.5)]
    nll = [-each[torch.arange(300), torch.from_numpy(labels)].log() @ torch.from_numpy(weights) for each in probs]
    assert found.differences["nll"].estimate == pytest.approx(((nll[0] - nll[1]) / weights.sum()).item())
    assert found.differences["nll"].estimate in found.differences["nll"]


def test_a_weight_column_of_a_file_enters_the_audit(tmp_path: Path) -> None:
    logits, labels = made(300)
    weights = np.arange(300) % 3
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, weight=weights)
    again, truth = times(weights, logits, labels)
    np.savez(tmp_path / "b.npz", logits=again, labels=truth)
    found, wanted = audit(tmp_path / "a.npz")[0], audit(tmp_path / "b.npz")[0]
    assert found.verdict.ece.estimate == pytest.approx(wanted.verdict.ece.estimate)
    counts = audit(tmp_path / "a.npz", weights_are="counts")[0]
    assert counts.verdict == wanted.verdict


def test_a_metric_of_ones_own_without_weights_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unweighted.py").write_text("def mine(probs, labels):\n    return probs.amax(1).mean()\n")
    monkeypatch.syspath_prepend(tmp_path)
    logits, labels = made(100)
    source = source_of(logits, labels, np.ones(100))
    with pytest.raises(InputError, match="Expected a metric that takes weights, but 'unweighted:mine' does not"):
        audit_source(source, None, "arrays", 15, 0.95, None, metrics=["unweighted:mine"])
    audit_source(source_of(logits, labels), None, "arrays", 15, 0.95, None, metrics=["unweighted:mine"])


def test_rows_that_count_are_read_in_bounded_pieces() -> None:
    logits, labels = made(3, 3)
    seen = Weighing()
    chunks = list(counted(source_of(logits, labels, np.array([200_000.0, 0.0, 1.0]), counts=True), seen))
    assert sum(len(chunk.labels) for chunk in chunks) == 200_001
    assert max(len(chunk.labels) for chunk in chunks) <= 2**18 // 3
    assert chunks[-1].labels[-1] == labels[2]
    assert (seen.rows, seen.total) == (3, 200_001.0)


def test_sums_of_weighted_values_are_those_of_the_values() -> None:
    source = torch.Generator().manual_seed(0)
    values, weights = torch.rand(50, generator=source).double(), torch.rand(50, generator=source).double()
    sums, some = ValueSums(), ValueSums()
    sums.add(values[:20], weights[:20])
    sums.add(values[20:], weights[20:])
    some.add(values[:20], weights[:20])
    whole, rest = Losses.of(values, weights), Losses.of(values[20:], weights[20:])
    assert sums.mean == pytest.approx(np.average(values, weights=weights))
    assert vars(sums.losses()) == pytest.approx(vars(whole))
    assert vars((sums - some).losses()) == pytest.approx(vars(rest))


def test_measures_of_weights_are_intervals_around_their_estimates() -> None:
    logits, labels = made(500, temperature=0.6)
    weights = np.random.default_rng(3).lognormal(size=500)
    reading = read(
        source_of(logits, labels, weights), n_bins=15, where="arrays", metrics=[*SHOWN, "top_k_accuracy:k=2"]
    )
    verdict = verdict_of_sums(reading.bins.sums)
    found = measure(reading, [*SHOWN, "top_k_accuracy:k=2"], {"ece": verdict.ece}, 0.95)
    known = {key for key, each in found.items() if each.known}
    assert known >= {"ece", "nll", "brier", "misclassification_auroc", "aurc", "top_k_accuracy:k=2"}
    assert all(each.low <= each.estimate <= each.high for each in found.values())


@pytest.mark.parametrize(
    ("told", "wanted"), [({}, "0 or from 1e-12 to"), ({"weights_are": "counts"}, "whole numbers from 0 to")]
)
def test_weights_beside_which_others_vanish_are_refused(
    tmp_path: Path, told: dict[str, Any], wanted: str, recwarn: pytest.WarningsRecorder
) -> None:
    """−1 as a number without a sign is 1.8e19."""
    probs, labels = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 1, 1])
    np.savez(tmp_path / "huge.npz", probs=probs, labels=labels, weights=np.array([-1, 0, 2]).astype(np.uint64))
    with pytest.raises(
        InputError, match=rf"Expected weights 'weights' to be {wanted} 1e\+12.* row 0 has 1\.84467e\+19"
    ):
        audit(tmp_path / "huge.npz", **told)
    assert not recwarn.list


@pytest.mark.parametrize("weight", [1e12, 1e-12])
def test_the_unit_of_weights_is_anybodys(rows: tuple[np.ndarray, ...], weight: float, tmp_path: Path) -> None:
    logits, labels, *_ = rows
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels, weights=np.full(len(labels), weight))
    np.savez(tmp_path / "b.npz", logits=logits, labels=labels)
    (found,), (plain,) = audit(tmp_path / "a.npz"), audit(tmp_path / "b.npz")
    assert found.verdict.ece.estimate == pytest.approx(plain.verdict.ece.estimate, rel=1e-6)
    assert found.n == plain.n
