"""Weights of confidences, choices and several labels per row; every number is that of repeated rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import surefoot as sf
from surefoot.auditing.result import Audit
from surefoot.errors import InputError
from surefoot.metrics.multilabel import LabelStream, judge_labels
from surefoot.schema import Predictions
from tests.auditing import test_choices, test_confidence, test_multilabel

SURE, RIGHT = test_confidence.made(600, shift=0.7)
TIMES = np.random.default_rng(1).integers(0, 4, 600)
CHOICES, TRUE = test_choices.ragged(600)


def again(values: np.ndarray) -> np.ndarray:
    return np.repeat(values, TIMES, axis=0)


def confidence(way: str, path: Path, weights: np.ndarray | None, **said: Any) -> Audit:
    """Audit a confidence that comes in one of several ways."""
    sure, right = (again(SURE), again(RIGHT)) if weights is None else (SURE, RIGHT)
    columns = {"confidence": sure, "correct": right.astype(int), **({} if weights is None else {"weight": weights})}
    if way == "csv":
        rows = zip(*(map(repr, column.tolist()) for column in columns.values()), strict=True)
        path.with_suffix(".csv").write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
        return sf.audit(path.with_suffix(".csv"), **said).audit
    if way == "npz":
        np.savez(path.with_suffix(".npz"), **columns)
        return sf.audit(path.with_suffix(".npz"), **said).audit
    if way == "arrays":
        return sf.audit(probs=sure, labels=right, form="confidence", weights=weights, **said).audit
    if way == "predictions":
        logits = np.stack([np.zeros(len(sure)), np.log(sure / (1 - sure))], 1)
        made = Predictions(logits, right.astype(int), "test", form="confidence", weights=weights)
        return sf.audit(made, **said).audit
    return sf.audit(columns, **said).audit


@pytest.mark.parametrize("way", ["csv", "npz", "arrays", "predictions", "columns"])
def test_a_confidence_with_weights_has_the_values_of_repeated_rows(way: str, tmp_path: Path) -> None:
    found = confidence(way, tmp_path / "a", TIMES.astype(float))
    wanted = confidence(way, tmp_path / "b", None)
    assert (found.form, found.n) == ("confidence", int((TIMES > 0).sum()))
    for key, interval in wanted.measures.items():
        assert found.measures[key].estimate == pytest.approx(interval.estimate, rel=1e-9), key
    assert found.verdict.reliability.accuracy == pytest.approx(wanted.verdict.reliability.accuracy)
    assert found.confidence is not None
    assert wanted.confidence is not None
    assert found.confidence.mean == pytest.approx(wanted.confidence.mean)
    assert found.confidence.nll == pytest.approx(wanted.confidence.nll)
    mine, its = (each.verdict.accuracy.high - each.verdict.accuracy.low for each in (found, wanted))
    assert mine > 1.3 * its  # weights of mean 1.5 are worth fewer rows than there are, and far fewer than repeated ones
    assert any(note.startswith("Rows are weighted: 600 rows") for note in found.notes)
    if way != "predictions":
        assert "'weight" in found.took


@pytest.mark.parametrize("way", ["csv", "npz", "arrays", "predictions", "columns"])
def test_counts_of_confidences_are_repeated_rows_in_every_number(way: str, tmp_path: Path) -> None:
    found = confidence(way, tmp_path / "a", TIMES.astype(float), weights_are="counts", risk=0.2)
    wanted = confidence(way, tmp_path / "a", None, risk=0.2)
    same: dict[str, Any] = {"notes": (), "took": "", "file": ""}
    assert _rounded(replace(found, **same).to_json()) == _rounded(replace(wanted, **same).to_json())
    assert any(note.endswith(f"600 rows count as {TIMES.sum():,}.") for note in found.notes)


def _rounded(value: Any) -> Any:
    """Round what was added up in another order."""
    if isinstance(value, str):
        value = json.loads(value) if value.startswith(("{", "[")) else value
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def test_repairs_of_a_confidence_are_fitted_and_scored_with_weights() -> None:
    """Rows of weight 0 would need another repair; without them there is none to be made."""
    bad = np.arange(600) % 2 == 0
    mixed = np.where(bad, 0.999, SURE)
    alone = sf.audit(probs=SURE[~bad], labels=RIGHT[~bad], form="confidence").audit
    weighted = sf.audit(probs=mixed, labels=RIGHT, form="confidence", weights=np.where(bad, 1e-9, 1.0)).audit
    assert alone.confidence is not None
    assert weighted.confidence is not None
    mine, its = (next(x for x in a.repairs if x.name == "temperature") for a in (weighted.confidence, alone.confidence))
    assert mine.temperature == pytest.approx(its.temperature, rel=1e-3)


def test_weights_of_confidences_are_said_or_refused(tmp_path: Path) -> None:
    columns = {"confidence": SURE, "correct": RIGHT, "weight": TIMES.astype(float)}
    found = sf.audit(columns).audit
    assert found.notes[0] == "Column 'weight' says how much each row counts; with --no-weights all count alike."
    assert sf.audit(columns, weights=False).audit.n == 600
    other = sf.audit({"confidence": SURE, "correct": RIGHT, "count": TIMES}).audit
    assert (other.n, other.notes[0][:29]) == (600, "Column 'count' was not used: ")
    named = sf.audit({"confidence": SURE, "correct": RIGHT, "n": TIMES}, weights="n", weights_are="counts").audit
    assert named.n == TIMES.sum()
    with pytest.raises(InputError, match="Expected a column 'nothing', but arrays has confidence, correct, weight"):
        sf.audit(columns, weights="nothing")
    with pytest.raises(
        InputError, match=r"Expected weights 'weight' to be 0 or from 1e-12 to 1e\+12 in every row, but row 0 has -1"
    ):
        sf.audit({**columns, "weight": np.where(np.arange(600) == 0, -1.0, 1.0)})
    with pytest.raises(InputError, match="Expected a weight above 0 in some row"):
        sf.audit({**columns, "weight": np.zeros(600)})
    with pytest.raises(InputError, match="Expected no --weights with this form, but got 'doc_id'"):
        sf.audit(test_choices.SAMPLES, weights="doc_id")


@pytest.mark.parametrize("way", ["jsonl", "lists", "predictions"])
def test_choices_with_weights_have_the_values_of_repeated_rows(way: str, tmp_path: Path) -> None:
    places = np.repeat(np.arange(600), TIMES)

    def audited(rows: np.ndarray, weights: np.ndarray | None, **said: Any) -> Audit:
        lists, true = [CHOICES[row] for row in rows], [TRUE[row] for row in rows]
        more = {} if weights is None else {"weight": weights.tolist()}
        if way == "jsonl":
            columns = {"logits": lists, "label": true, **more}
            lines = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            return sf.audit(tmp_path / "a.jsonl", **said).audit
        if way == "lists":
            return sf.audit(logits=lists, labels=true, weights=weights, **said).audit
        wide = np.array([z + [-np.inf] * (5 - len(z)) for z in lists])
        return sf.audit(Predictions(wide, np.array(true), "test", form="choices", weights=weights), **said).audit

    wanted = audited(places, None)
    found = audited(np.arange(600), TIMES.astype(float))
    assert found.form == wanted.form == "choices"
    for key, interval in wanted.measures.items():
        assert found.measures[key].estimate == pytest.approx(interval.estimate, rel=1e-9), key
    counts = audited(np.arange(600), TIMES.astype(float), weights_are="counts")
    same: dict[str, Any] = {"notes": (), "took": "", "file": ""}
    assert _rounded(replace(counts, **same).to_json()) == _rounded(replace(wanted, **same).to_json())


LABEL_PROBS, LABELS = test_multilabel.made(600)


def labelled(way: str, path: Path, weights: np.ndarray | None, **said: Any) -> Audit:
    """Audit several labels per row that come in one of several ways."""
    probs, labels = (again(LABEL_PROBS), again(LABELS)) if weights is None else (LABEL_PROBS, LABELS)
    more = {} if weights is None else {"weight": weights}
    if way == "npz":
        np.savez(path.with_suffix(".npz"), probs=probs, labels=labels, **more)
        return sf.audit(path.with_suffix(".npz"), **said).audit
    if way == "arrays":
        return sf.audit(probs=probs, labels=labels, weights=weights, **said).audit
    if way == "predictions":
        logits = np.log(probs / (1 - probs))
        return sf.audit(Predictions(logits, labels, "test", form="multilabel", weights=weights), **said).audit
    columns = {f"prob_{name}": probs[:, k] for k, name in enumerate(test_multilabel.NAMES)}
    columns |= {f"true_{name}": labels[:, k] for k, name in enumerate(test_multilabel.NAMES)} | more
    if way == "columns":
        return sf.audit(columns, **said).audit
    rows = zip(*(map(repr, column.tolist()) for column in columns.values()), strict=True)
    path.with_suffix(".csv").write_text("\n".join([",".join(columns), *map(",".join, rows)]) + "\n")
    return sf.audit(path.with_suffix(".csv"), **said).audit


LABEL_WAYS = ["npz", "arrays", "predictions", "columns", "csv"]


@pytest.mark.parametrize("way", LABEL_WAYS)
def test_several_labels_with_weights_have_the_values_of_repeated_rows(way: str, tmp_path: Path) -> None:
    found, wanted = labelled(way, tmp_path / "a", TIMES.astype(float)), labelled(way, tmp_path / "b", None)
    assert (found.form, found.n) == ("multilabel", int((TIMES > 0).sum()))
    for key, interval in wanted.measures.items():
        assert found.measures[key].estimate == pytest.approx(interval.estimate, rel=1e-9), key
        mine, its = (each.measures[key].high - each.measures[key].low for each in (found, wanted))
        assert mine > 1.2 * its, key  # weights that vary are worth fewer rows than there are
    assert found.verdict.reliability.accuracy == pytest.approx(wanted.verdict.reliability.accuracy)
    assert sum(found.verdict.reliability.count) == pytest.approx(3 * found.n)
    assert found.labels is not None
    assert wanted.labels is not None
    theirs = {one.verdict.label: one for one in wanted.labels.each}
    for one in found.labels.each:
        its_label = theirs[one.verdict.label]
        for key in ("rate", "gap", "ece"):
            mine, its = getattr(one.verdict, key), getattr(its_label.verdict, key)
            assert mine.estimate == pytest.approx(its.estimate, rel=1e-9), key
            assert mine.high - mine.low > 1.1 * (its.high - its.low), key
        assert one.verdict.mean == pytest.approx(its_label.verdict.mean)
        assert one.verdict.p_value >= its_label.verdict.p_value
        assert one.auroc is not None
        assert its_label.auroc is not None
        assert one.auroc.estimate == pytest.approx(its_label.auroc.estimate)
    assert any(note.startswith("Rows are weighted: 600 rows") for note in found.notes)


@pytest.mark.parametrize("way", LABEL_WAYS)
def test_counts_of_several_labels_are_repeated_rows_in_every_number(way: str, tmp_path: Path) -> None:
    found = labelled(way, tmp_path / "a", TIMES.astype(float), weights_are="counts")
    wanted = labelled(way, tmp_path / "a", None)
    same: dict[str, Any] = {"notes": (), "took": "", "file": ""}
    assert _rounded(replace(found, **same).to_json()) == _rounded(replace(wanted, **same).to_json())
    assert found.notes[-1] == f"Each row stands for as many as its weight says: 600 rows count as {TIMES.sum():,}."


def test_weights_of_labels_in_the_functions() -> None:
    weights = np.random.default_rng(2).gamma(1.0, 1.0, 600)
    micro, each = judge_labels(LABEL_PROBS, LABELS, weights)
    residual = (LABEL_PROBS - LABELS).mean(1)
    gap = np.average(residual, weights=weights)
    effective = weights.sum() ** 2 / np.square(weights).sum()
    variance = np.square(weights * (residual - gap)).sum() / weights.sum() ** 2 * effective / (effective - 1)
    reach = stats.t.ppf(0.975, effective - 1) * np.sqrt(variance)
    assert (micro.gap.estimate, micro.gap.high) == (pytest.approx(gap), pytest.approx(gap + reach))
    even = judge_labels(LABEL_PROBS, LABELS, np.full(600, 0.003))
    plain = judge_labels(LABEL_PROBS, LABELS)
    assert (even[0].gap.low, even[0].ece.high) == pytest.approx((plain[0].gap.low, plain[0].ece.high))
    for mine, its in zip(even[1], plain[1], strict=True):
        assert (mine.label, mine.finding, mine.gap.low) == (its.label, its.finding, pytest.approx(its.gap.low))
        assert mine.p_value == pytest.approx(its.p_value, rel=1e-6)
    counts = judge_labels(LABEL_PROBS, LABELS, TIMES, weights_are="counts")
    assert counts == judge_labels(again(LABEL_PROBS), again(LABELS))
    stream = LabelStream()
    for start in range(0, 600, 70):
        here = slice(start, start + 70)
        stream.update(LABEL_PROBS[here], LABELS[here], weights[here])
    assert stream.micro().ece.high == pytest.approx(micro.ece.high)
    assert [one.p_value for one in stream.each()] == pytest.approx([one.p_value for one in each])
    with pytest.raises(InputError, match="Expected one weight per row, finite, none below 0 and some above"):
        judge_labels(LABEL_PROBS, LABELS, np.zeros(600))
    with pytest.raises(InputError, match="Expected whole numbers where weights are counts, but got"):
        judge_labels(LABEL_PROBS, LABELS, weights, weights_are="counts")


def test_a_single_row_of_labels_tells_nothing() -> None:
    one, _ = judge_labels([[0.9, 0.2]], [[0, 1]])
    assert (one.gap.low, one.gap.high, one.ece.low, one.ece.high) == (-1.0, 1.0, 0.0, 1.0)
    assert one.finding == "calibrated"
    heavy, _ = judge_labels([[0.9, 0.2], [0.5, 0.5]], [[0, 1], [1, 1]], [1.0, 1e-6])
    assert (heavy.gap.low, heavy.gap.high) == (-1.0, 1.0)
    never, _ = judge_labels([[0.1, 0.1]] * 50, [[0, 0]] * 50)
    assert never.accuracy.high == pytest.approx(1 - 0.025 ** (1 / 50))


def test_weights_of_several_labels_are_said_or_refused(tmp_path: Path) -> None:
    columns = {"prob_a": [0.2, 0.7] * 20, "prob_b": [0.4, 0.9] * 20, "true_a": [0, 1] * 20, "true_b": [1, 1] * 20}
    found = sf.audit({**columns, "weight": np.arange(40.0)}).audit
    assert found.notes[0] == "Column 'weight' says how much each row counts; with --no-weights all count alike."
    assert sf.audit({**columns, "weight": np.arange(40.0)}, weights=False).audit.n == 40
    assert sf.audit({**columns, "n": np.full(40, 2)}, weights="n", weights_are="counts").audit.n == 80
    assert sf.audit({**columns, "count": np.arange(40)}).audit.notes[0].startswith("Column 'count' was not used: ")
    with pytest.raises(InputError, match="Expected a column 'nothing', but arrays has prob_a, prob_b, true_a, true_b"):
        sf.audit(columns, weights="nothing")
    with pytest.raises(
        InputError, match=r"Expected weights 'weight' to be 0 or from 1e-12 to 1e\+12 in every row, but row 0 has -1"
    ):
        sf.audit({**columns, "weight": np.where(np.arange(40) == 0, -1.0, 1.0)})
    with pytest.raises(InputError, match="Expected a weight above 0 in some row"):
        sf.audit({**columns, "weight": np.zeros(40)})
    with pytest.raises(InputError, match="1 of 40 rows has a gap"):
        sf.audit({**columns, "weight": np.where(np.arange(40) == 0, np.nan, 1.0)})
