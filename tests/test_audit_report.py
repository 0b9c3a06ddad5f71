"""What a report can do: show itself in a notebook, and become frames and files."""

from __future__ import annotations

import base64
import csv
import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import surefoot as sf
from surefoot.errors import InputError
from tests.auditing.made import made, softmax
from tests.report.test_page import NASTY

# What JupyterLab leaves of HTML in notebooks that are not trusted (packages/apputils/src/sanitizer.ts).
ALLOWED = {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "span", "img", "br"}


class Tags(HTMLParser):
    """Collects tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def report() -> sf.AuditReport:
    logits, labels = made(400, temperature=0.5)
    names, sites = [NASTY, "b", "c"], np.array([NASTY, "south"] * 200)
    return sf.audit(
        logits=logits, labels=labels, class_names=names, group={NASTY: sites}, metrics="accuracy,ece,nll,mce"
    )


@pytest.fixture(scope="module")
def ranked() -> sf.AuditReport:
    logits, labels = made(300)
    sources = [{"logits": scale * logits, "labels": labels} for scale in (1, 3, 0.01)]
    return sf.audit(*sources, names=[NASTY, "b", "c"], metrics="nll")


def test_a_notebook_shows_sentence_table_and_diagram_without_scripts(report: sf.AuditReport) -> None:
    text = report._repr_html_()
    found = Tags(text)
    assert set(found.tags) <= ALLOWED
    assert NASTY not in text
    assert {name for _, name, _ in found.attributes} <= {"style", "align", "width", "height", "alt", "src"}
    said = " ".join(found.texts)
    assert report.sentence()[1:] in said
    assert f"{NASTY} = south" in said
    assert "by chance alone" in said
    (address,) = (value for tag, name, value in found.attributes if (tag, name) == ("img", "src"))
    kind, _, packed = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    picture = ET.fromstring(base64.b64decode(packed))
    circles = [each for each in picture.iter() if each.tag.endswith("circle")]
    diagram = report.verdict.reliability
    assert len(circles) == sum(n > 0 for n in diagram.count)
    x = sorted(float(each.get("cx")) for each in circles)
    assert (x[-1] - x[0]) / 190 == pytest.approx(
        max(c for c in diagram.confidence if c) - min(c for c in diagram.confidence if c), abs=0.002
    )


def test_a_notebook_shows_rankings_comparisons_and_risks(ranked: sf.AuditReport) -> None:
    text = ranked._repr_html_()
    assert NASTY not in text
    assert set(Tags(text).tags) <= ALLOWED
    assert len(re.findall("<img", text)) == 3
    assert "Models that share a letter" in text
    logits, labels = made(200, 2)
    both = sf.audit({"logits": logits, "labels": labels}, {"logits": 2 * logits, "labels": labels}, metrics="nll")
    assert "A − B and its interval" in both._repr_html_()
    assert (
        "mean risk (up: happened)"
        in base64.b64decode(both._repr_html_().partition("base64,")[2].partition("'")[0]).decode()
    )


def test_frames_have_a_row_per_measure_and_slice(report: sf.AuditReport, ranked: sf.AuditReport) -> None:
    pytest.importorskip("pandas")
    frame = report.to_frame()
    assert list(frame.columns) == ["model", "measure", "estimate", "low", "high", "level", "note"]
    by = frame.set_index("measure")
    assert by.loc["ece", "estimate"] == report.measures["ece"].estimate
    assert by.loc["ece", "low"] == report.measures["ece"].low
    assert math.isnan(by.loc["mce", "low"])
    assert by.loc["mce", "note"]
    groups = report.groups_frame()
    assert set(groups["slice"]) == {NASTY, "south"}
    for _, row in groups.iterrows():
        (each,) = (s for s in report.audit.slices if s.value == row["slice"])
        assert (row["n"], row["gap"], row["p_value"]) == (200, each.gap.estimate, each.p_value)
        assert row["gap_low"] < row["gap"] < row["gap_high"]
    assert ranked.to_frame()["model"].tolist() == [NASTY, "b", "c"]
    assert ranked.groups_frame().empty


def test_without_pandas_a_frame_is_refused_and_the_rest_works(
    report: sf.AuditReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"Expected pandas for a DataFrame, but it is not installed\. Run pip install"):
        report.to_frame()
    report.save(tmp_path / "a.csv")


def test_saved_as_page_json_and_csv(report: sf.AuditReport, tmp_path: Path) -> None:
    for ending in ("html", "json", "csv"):
        for _ in range(2):  # what we wrote may be replaced
            assert report.save(str(tmp_path / "new" / f"a.{ending}")) == tmp_path / "new" / f"a.{ending}"
    assert "surefoot audit" in (tmp_path / "new/a.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "new/a.json").read_text(encoding="utf-8")) == report.to_json()
    with (tmp_path / "new/a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["measure"] for row in rows] == list(report.measures)
    assert float(rows[0]["estimate"]) == report.measures["accuracy"].estimate
    assert next(row for row in rows if row["measure"] == "mce")["low"] == ""


def test_nothing_of_anybody_else_is_replaced(report: sf.AuditReport, tmp_path: Path) -> None:
    (tmp_path / "preds.csv").write_text("label,p0,p1\n0,0.9,0.1\n")
    (tmp_path / "preds.json").write_text('[{"label": 0, "probs": [0.9, 0.1]}]')
    (tmp_path / "preds.html").write_text("<p>mine</p>")
    for ending in ("csv", "json", "html"):
        with pytest.raises(
            InputError, match=r"Expected .*preds\.\w+ to be free or a (report|page) that surefoot wrote"
        ):
            report.save(tmp_path / f"preds.{ending}")
    with pytest.raises(
        InputError, match=r"Expected a file name that ends in \.html, \.json or \.csv, but got 'a\.pdf'"
    ):
        report.save("a.pdf")
    with pytest.raises(InputError, match="Expected a file name that ends in"):
        report.save(tmp_path)


def test_one_row_shows_itself(tmp_path: Path) -> None:
    logits, _ = made(1)
    one = sf.audit(probs=softmax(logits), labels=[0], metrics="nll")
    assert "1 example is too few to judge" in one._repr_html_()
    assert one.save(tmp_path / "a.json").exists()
