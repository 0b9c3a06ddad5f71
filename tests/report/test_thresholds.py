"""Thresholds on the page and in the terminal, from JSON alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.report.audit_page import write_audit_page
from surefoot.report.marks import mark_of
from surefoot.report.thresholds import group_rows, group_words, threshold_figure, threshold_text
from tests.report.test_page import NASTY, figures, read


@pytest.fixture(scope="module")
def audited() -> dict:
    """An audit with three risks, of which one can be had, and a group with a nasty name."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 3000)
    logits = rng.standard_normal((3000, 3))
    logits[np.arange(3000), labels] += np.where(rng.random(3000) < 0.75, 6.0, 1.0)
    site = np.where(np.arange(3000) % 5 > 0, NASTY, "south")
    weights = np.where(np.arange(3000) % 2 == 0, 1.0, 0.9)
    report = sf.audit(logits=logits, labels=labels, group={"site": site}, weights=weights, risk=[0.05, 0.0001])
    return json.loads(json.dumps(report.to_json()["audits"][0]))


def test_the_page(audited: dict, tmp_path: Path) -> None:
    page = write_audit_page([audited], tmp_path / "a.html")
    assert "threshold-0" in set(figures(page)) & set(read(page).ids())
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    sentence = audited["thresholds"][0]["sentence"]
    assert f"<p>A{sentence[1:]}.</p>" in text
    assert "By site: no group has a threshold of its own for at most 0.01 % wrong either" in text
    without = write_audit_page([{**audited, "thresholds": []}], tmp_path / "b.html").read_text(encoding="utf-8")
    assert "Act above a threshold" not in without


def test_the_figure_has_the_bound_and_the_check(audited: dict) -> None:
    found = threshold_figure(audited["thresholds"], mark_of(0))
    line, chosen, check = found["data"]
    rule = audited["thresholds"][0]
    assert line["x"][-1] == 1.0
    assert chosen["y"][0] + chosen["error_y"]["array"][0] == pytest.approx(rule["chosen"]["bound"])
    assert chosen["error_y"]["arrayminus"] == [0.0]
    assert check["y"][0] - check["error_y"]["arrayminus"][0] == pytest.approx(rule["check"]["risk"]["low"])
    assert [shape["y0"] for shape in found["layout"]["shapes"]] == [0.05, 0.0001]


def test_the_terminal(audited: dict) -> None:
    lines = [text.plain for text in threshold_text(audited)]
    chosen = audited["thresholds"][0]["chosen"]
    assert lines[0].startswith("Above 0.")
    assert lines[1].startswith("At most 0.01 % wrong (95 % confidence) takes at least 29,956 answers without an error")
    assert lines[2].startswith(
        f"Note: Thresholds count {chosen['n']:,} of {chosen['rows']:,} rows, drawn in proportion"
    )
    good, none = audited["thresholds"]
    assert {row[0] for row in group_rows(good, "site")} == {NASTY, "south"}
    assert group_rows(none, "site") == []
    words = group_words(good, "site")
    assert "holds in all 2 groups at once with 95 % confidence (97.5 % each, which takes at least 72 answers" in words
