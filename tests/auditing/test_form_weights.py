"""Weights of rows that are no scores of classes: confidences and choices; every number is that of repeated rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.auditing.result import Audit
from surefoot.errors import InputError
from surefoot.schema import Predictions
from tests.auditing import test_choices, test_confidence

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
        rows = Predictions(logits, right.astype(int), "test", form="confidence", weights=weights)
        return sf.audit(rows, **said).audit
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
    same = {"notes": (), "took": "", "file": ""}
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
    mine, its = (next(x for x in a.confidence.repairs if x.name == "temperature") for a in (weighted, alone))
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
    with pytest.raises(InputError, match="Expected weights 'weight' to be 0 or more in every row, but row 0 has -1"):
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
    same = {"notes": (), "took": "", "file": ""}
    assert _rounded(replace(counts, **same).to_json()) == _rounded(replace(wanted, **same).to_json())
