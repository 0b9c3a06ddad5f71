"""The page of prediction sets: from JSON alone, whole, safe, and drawn in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import conformal
from surefoot.report.marks import mark_of
from surefoot.report.sets_page import size_figure, write_sets_page
from surefoot.report.sets_tables import sets_html
from tests.auditing.made import made
from tests.report.browser import drawn_page
from tests.report.test_page import NASTY, figures, read


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Sets with nasty names and groups, one of which has its labels drawn by lot, as plain JSON."""
    folder = tmp_path_factory.mktemp("sets")
    names = np.array([NASTY, "b", "c"])
    for name, seed in (("val", 0), ("test", 1)):
        logits, labels = made(800, seed=seed)
        labels = np.where(np.arange(800) % 4, labels, np.random.default_rng(seed).integers(0, 3, 800))
        site = np.where(np.arange(800) % 4, "south", NASTY)
        np.savez(folder / f"{name}.npz", logits=logits, labels=labels, class_names=names, site=site)
    fitted = conformal(folder / "val.npz", folder / "test.npz", groups=["site"])
    return json.loads(json.dumps(fitted.to_json(), allow_nan=False))


def test_well_formed_with_every_figure_in_its_place(found: dict, tmp_path: Path) -> None:
    page = write_sets_page(found, tmp_path / "s.html", command="surefoot conformal val.npz")
    places = {"sizes", "by-size", "classes", "group-0"}
    assert set(figures(page)) == places
    assert places <= set(read(page).ids())
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    for word in ("surefoot conformal val.npz", "Asked for", "LAC", "On rows that each was not fitted on", "All 3"):
        assert word in text
    assert NASTY not in sets_html(found)


def test_figures_hold_what_was_measured(found: dict, tmp_path: Path) -> None:
    drawn = figures(write_sets_page(found, tmp_path / "s.html"))
    measured = found["measured"]
    assert dict(zip(*(drawn["sizes"][""]["data"][0][axis] for axis in "xy"), strict=True)) == pytest.approx({
        str(size): share for size, share in measured["sizes"]
    })
    fine, under = drawn["group-0"][""]["data"]
    (worst,) = (each for each in measured["groups"] if each["under"])
    assert worst["value"] == NASTY
    assert under["x"] == [worst["coverage"]["estimate"]]
    assert under["marker"]["color"] == "--over"
    assert len(fine["x"]) == 1
    assert under["x"][0] - under["error_x"]["arrayminus"][0] == pytest.approx(worst["coverage"]["low"])
    assert drawn["classes"][""]["layout"]["shapes"][0]["x0"] == 0.9
    many = size_figure([[k, 0.01] for k in range(100)], mark_of(0))["data"][0]
    assert many["x"][-1] == "30–99"
    assert sum(many["y"]) == pytest.approx(1.0)


def test_built_without_torch(found: dict, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(found))
    code = (
        "import json, sys\nfrom surefoot.report.sets_page import write_sets_page\n"
        "write_sets_page(json.load(open(sys.argv[1])), sys.argv[2])\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "s.json", tmp_path / "s.html"], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_drawn_in_a_browser(found: dict, tmp_path: Path) -> None:
    document = drawn_page(write_sets_page(found, tmp_path / "s.html"), tmp_path / "profile")
    root = re.search(r"<html[^>]*>", document)[0]
    assert 'data-drawn="4"' in root
    assert "data-trouble" not in root
