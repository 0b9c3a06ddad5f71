"""The figure of all claims: one row each, on a scale of its own, and well-formed whatever a study is called."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from surefoot.studies.forest import AXIS, due_to, forest_of
from surefoot.studies.pages import page_of
from surefoot.studies.papers import PAPERS, Paper, papers_of

ZERO = AXIS[0] + (AXIS[1] - AXIS[0]) * 1.5 / 4  # the axis goes from −1.5 to 2.5 published effects
ONE = AXIS[0] + (AXIS[1] - AXIS[0]) * 2.5 / 4


def values(claim: str = "A1", outcome: str = "held", **changes: Any) -> dict[str, Any]:
    """Return what a study found, as its file has it."""
    headline = {"number": "gap", "limit": 0.0, "published": 0.02, "percent": True, "is_lower": False}
    return {
        "study": claim.lower(),
        "claim": claim,
        "statement": "SAM is better than SGD",
        "verdict": {"outcome": outcome, "reason": "the gap is 0.01"},
        "numbers": {"gap": {"value": 0.01, "low": 0.005, "high": 0.015, "n": 5, "is_ratio": False}},
        "headline": {**headline, **changes.pop("headline", {})},
        "seeds": [10, 11, 12, 13, 14],
        "differs": "",
        **changes,
    }


def drawn(result: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """Return the shapes of the only row, by kind: what stands below the legend."""
    found: dict[str, list[dict[str, str]]] = {}
    for element in ElementTree.fromstring(forest_of([result])).iter():
        kind = element.tag.rpartition("}")[2]
        y = float(element.get("cy") or element.get("y1") or element.get("y") or 0)
        if kind in ("circle", "rect", "line", "text", "tspan", "path") and (y > 66 or kind in ("path", "tspan")):
            found.setdefault(kind, []).append({**element.attrib, "text": (element.text or "").strip()})
    return found


def x_of_mark(result: dict[str, Any]) -> float:
    return float(drawn(result)["circle"][0]["cx"])


def test_values_stand_between_nothing_and_what_was_published() -> None:
    assert x_of_mark(values()) == pytest.approx((ZERO + ONE) / 2, abs=0.1)
    line = drawn(values())["line"][-1]
    assert float(line["x1"]) == pytest.approx(ZERO + (ONE - ZERO) / 4, abs=0.1)
    assert float(line["x2"]) == pytest.approx(ZERO + (ONE - ZERO) * 3 / 4, abs=0.1)
    diamond = [path for path in drawn(values())["path"] if path["d"].startswith(f"M{ONE:.1f}")]
    assert len(diamond) == 1


def test_a_claim_of_less_goes_to_the_right_as_well() -> None:
    """Below its limit of 3 by 2, where 4 below was published: half the way."""
    lower = values(headline={"limit": 0.03, "published": -0.01, "is_lower": True})
    assert x_of_mark(lower) == pytest.approx((ZERO + ONE) / 2, abs=0.1)


def test_without_a_published_number_the_scale_is_the_interval() -> None:
    alone = values(headline={"published": None})
    assert ZERO < x_of_mark(alone) < ONE
    assert len(drawn(alone)["path"]) == 1  # the legend's diamond only
    unknown = values(numbers={}, headline={"published": None})
    assert "circle" not in drawn(unknown)


def test_what_lies_beyond_the_axis_is_an_arrow_at_its_end() -> None:
    far = values(numbers={"gap": {"value": 0.2, "low": 0.1, "high": 0.3, "n": 5, "is_ratio": False}})
    assert x_of_mark(far) == AXIS[1]
    arrows = [path for path in drawn(far)["path"] if path.get("fill") != "none"]
    assert len(arrows) == 1
    assert "20 (10 to 30) points; published 2" in [text["text"] for text in drawn(far)["text"]]


def test_counted_violations_are_told_in_words() -> None:
    counted = values(
        "B6", headline={}, verdict={"outcome": "held", "reason": "theorems: 0 violations in 12,345 checks"}
    )
    counted["headline"] = None
    shown = drawn(counted)
    assert "0 violations in 12,345 checks" in [text["text"] for text in shown["text"]]
    assert "circle" not in shown


@pytest.mark.parametrize(
    ("outcome", "shape"), [("contradicted", "rect"), ("did not transfer", "rect"), ("held", "circle")]
)
def test_outcomes_have_shapes_of_their_own(outcome: str, shape: str) -> None:
    assert shape in drawn(values(outcome=outcome))


def test_names_are_text_and_nothing_else() -> None:
    hostile = values("<script>alert(1)</script>", statement="a & b <b>")
    assert "<script>" not in forest_of([hostile])
    ElementTree.fromstring(forest_of([hostile]))


def test_papers_are_summed_up_by_their_letter() -> None:
    results = [values("A1"), values("A2", "underpowered"), values("A10"), values("mine")]
    assert papers_of(results) == ["**SAM, CSAM and Stable SAM:** 2 held (A1, A10); 1 underpowered (A2)."]


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if paper.seen], ids=lambda paper: paper.letter)
def test_what_the_results_of_a_paper_mean_is_said_where_they_came_out_so(paper: Paper) -> None:
    results = [values(study.upper(), outcome) for study, outcome in paper.rests_on.items()]
    assert papers_of(results)[0].endswith(f"). {paper.seen}")
    for place, result in enumerate(results):
        other = values(result["claim"], "held" if result["verdict"]["outcome"] != "held" else "underpowered")
        assert papers_of([*results[:place], other, *results[place + 1 :]])[0].endswith(").")
    assert papers_of(results[1:])[0].endswith(").")


def test_the_page_says_what_is_missing_and_whether_the_setting_is_the_same() -> None:
    table = {"columns": [], "rows": []}
    cost = {"runs": 10, "passes": 100, "seconds": 60.0}
    rest: dict[str, Any] = {
        "question": "Is it?",
        "rule": "Held if it is.",
        "fixed": "fixed 2026-01-02 in abc1234",
        "source": "",
        "setting": {},
        "table": table,
        "failed": {},
        "arms": {"sgd": [f"sgd-seed{seed}-0123456789ab" for seed in range(10, 15)]},
        "shown": None,
        "command": "surefoot study a1",
        "cost": cost,
        "environment": {"surefoot": "0.1.0"},
    }
    results = [values(**rest), values("A2", **{**rest, "differs": "smaller"}), values("C1", **rest)]
    page = page_of(results, "results", {}, ["B1"])
    rows = re.findall(r"^\| \[[AC]\d\].*$", page, re.MULTILINE)
    assert rows == [
        "| [A1](#a1-held) | SAM is better than SGD | held | gap | 2 | 1 (0.5 to 1.5) | yes | 5 |",
        "| [A2](#a2-held) | SAM is better than SGD | held | gap | 2 | 1 (0.5 to 1.5) | no: smaller | 5 |",
        "| [C1](#c1-held) | SAM is better than SGD | held | gap | 2 | 1 (0.5 to 1.5) | asked here | 5 |",
    ]
    assert "Not run yet: B1." in page
    assert "*Rule, fixed 2026-01-02 in abc1234; judged on seeds 10 to 14:* Held if it is." in page


def test_what_a_verdict_is_due_to_is_told_where_the_number_does_not_show_it() -> None:
    shown = "ECE of mmce − csam is −0.02 (−0.03 to −0.01, n = 5), below 0; of the other parts 4 are for it"
    other = values(outcome="did not transfer", verdict={"outcome": "did not transfer", "reason": shown})
    assert due_to(other) == "ECE of mmce − csam"
    assert "due to ECE of mmce − csam" in [note["text"] for note in drawn(other)["tspan"]]
    same = {"outcome": "contradicted", "reason": "gap is −0.02 (−0.03 to −0.01, n = 5), below 0. For it: b is 1"}
    assert due_to(values(verdict=same)) == ""
    many = {"outcome": "underpowered", "reason": "a, b, is 1, not clear of 0: about 9 seeds would tell; c is 2"}
    assert due_to(values(verdict=many)) == "a, b, and 1 more"
    assert due_to(values(verdict={"outcome": "held", "reason": "other is 1"})) == ""
    long = values(verdict={"outcome": "contradicted", "reason": f"{'x' * 99} is −1"})
    assert [note["text"] for note in drawn(long)["tspan"]] == [f"due to {'x' * 47}…"]


def test_a_row_says_what_its_number_is_of() -> None:
    named = values(headline={"number": "ECE of a − b"}, numbers={"ECE of a − b": values()["numbers"]["gap"]})
    shown = [text["text"] for text in drawn(named)["text"]]
    assert shown[-3:] == ["1 (0.5 to 1.5) points; published 2", "ECE of a − b", "held"]
