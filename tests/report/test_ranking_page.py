"""The page of more than two models: whole, safe, and readable on a desk and on a phone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.report.audit_page import write_audit_page
from surefoot.report.quantities import QUANTITIES
from surefoot.report.ranking import matrix
from tests.auditing.made import made
from tests.report.browser import add_script, drawn_page
from tests.report.test_page import NASTY, figures, read

NAMES = [NASTY, "a-very-long-name-of-a-run/with/folders/and-options=0.1", "b", "c"]


@pytest.fixture(scope="module")
def found() -> dict:
    """Four models with nasty and long names, and slices, as plain JSON."""
    logits, labels = made(500)
    noise = np.random.default_rng(1).standard_normal((500, 3)).astype(np.float32)
    scores = (logits, 3 * logits, logits + noise, 0.2 * logits)
    site = np.array([NASTY, "south"] * 250)
    sources = [{"logits": each, "labels": labels, "site": site} for each in scores]
    report = sf.audit(*sources, names=NAMES, group="site", metrics="accuracy,ece,nll,brier")
    return json.loads(json.dumps(report.to_json()))


@pytest.fixture(scope="module")
def risks() -> dict:
    logits, labels = made(400, 2)
    shifted = [logits + np.array([0, by], np.float32) for by in (0, 1, -1)]
    report = sf.audit(*({"logits": x, "labels": labels} for x in shifted), names=["a", "b", "c"], metrics="nll")
    return json.loads(json.dumps(report.to_json()))


def test_well_formed_with_every_figure_in_its_place(found: dict, tmp_path: Path) -> None:
    page = write_audit_page(found["audits"], tmp_path / "a.html", ranking=found["ranking"])
    document = read(page)
    dots = {f"dots-{key}" for key in ("nll", "ece", "confidence_gap", "accuracy")}
    places = {*dots, *(f"reliability-{k}-0" for k in range(4)), *(f"slices-{k}-0" for k in range(4)), "risk"}
    assert set(figures(page)) == places
    assert places <= set(document.ids())
    assert document.opened == []
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    assert "Which of 4 models can be trusted most?" in text


def test_risks_share_their_axes(risks: dict, tmp_path: Path) -> None:
    page = write_audit_page(risks["audits"], tmp_path / "a.html", ranking=risks["ranking"])
    drawn = figures(page)
    ends = {
        drawn[f"reliability-{k}-0"][""]["layout"][axis]["range"][1] for k in range(3) for axis in ("xaxis", "yaxis")
    }
    assert len(ends) == 1
    assert {"dots-risk_ece", "dots-risk_gap"} <= set(drawn)
    assert "matrix-ece" not in page.read_text(encoding="utf-8")


def test_points_and_cells_are_those_of_the_ranking(found: dict, tmp_path: Path) -> None:
    page = write_audit_page(found["audits"], tmp_path / "a.html", ranking=found["ranking"])
    ranking = found["ranking"]
    points = figures(page)["dots-nll"][""]["data"]
    expected = [ranking["nll"][place]["estimate"] for place in reversed(ranking["order"])]
    assert [point["x"][0] for point in points] == pytest.approx(expected, rel=1e-5)  # figures hold six digits
    highs = [point["x"][0] + point["error_x"]["array"][0] for point in points]
    assert highs == pytest.approx([ranking["nll"][place]["high"] for place in reversed(ranking["order"])], rel=1e-5)
    rows = matrix(ranking, QUANTITIES["nll"])
    assert [row["name"] for row in rows] == [ranking["names"][place] for place in ranking["order"]]
    for i, row in enumerate(rows):
        assert row["cells"][i] is None
        for j, cell in enumerate(row["cells"]):
            if cell is None:
                continue
            one, other = ranking["order"][i], ranking["order"][j]
            (pair,) = (p for p in ranking["pairs"] if {p["a"], p["b"]} == {one, other})
            gap = ranking["nll"][one]["estimate"] - ranking["nll"][other]["estimate"]
            assert float(cell["value"].replace("−", "-")) == pytest.approx(gap, abs=0.0006)
            low, high = (float(end.replace("−", "-")) for end in cell["interval"].split("…"))
            assert low <= gap + 0.0006
            assert high >= gap - 0.0006
            assert cell["said"] == {None: "even", one: "won", other: "lost"}[pair["better"]]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_seen_whole(found: dict, tmp_path: Path, width: int) -> None:
    """Every figure is drawn, nothing widens the page, and no figure is wider than its card."""
    page = write_audit_page(found["audits"], tmp_path / "a.html", ranking=found["ranking"])
    tell = (
        "const w = (e) => [e.clientWidth, e.scrollWidth]; addEventListener('message', () => parent.postMessage("
        "[document.documentElement.dataset.drawn, document.documentElement.dataset.trouble ?? '', "
        "w(document.documentElement), [...document.querySelectorAll('.card')].map(w)], '*'))"
    )
    add_script(page, tell)
    # A window cannot be as narrow as a phone; a frame can.
    ask = (
        "addEventListener('message', ({data}) => { document.title = JSON.stringify(data) });"
        "setInterval(() => document.querySelector('iframe').contentWindow.postMessage('', '*'), 500)"
    )
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"<title></title><body><iframe src='a.html' style='width:{width}px;height:3000px;border:0'></iframe>"
        f"<script>{ask}</script></body>",
        "utf-8",
    )
    document = drawn_page(frame, tmp_path / "profile", "--window-size=1400,3000")
    drawn, trouble, (seen, whole), cards = json.loads(re.search(r"<title>(\[.*?)</title>", document)[1])
    assert (drawn, trouble) == ("13", "")
    assert seen <= width
    assert whole <= seen
    assert len(cards) >= 13
    assert all(inside <= outside for outside, inside in cards), cards
