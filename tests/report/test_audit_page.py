"""The page of an audit: from JSON alone, whole, safe, and drawn in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from surefoot.auditing import audit, compare_audits
from surefoot.report.audit_page import write_audit_page
from tests.auditing.made import made
from tests.report.browser import drawn_page
from tests.report.test_page import NASTY, figures, read


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    """One audit with nasty names and slices, as plain JSON."""
    folder = tmp_path_factory.mktemp("audited")
    logits, labels = made(600, temperature=0.5)
    names, sites = np.array([NASTY, "b", "c"]), np.array([NASTY, "south"] * 300)
    np.savez(folder / "a.npz", logits=logits, labels=labels, class_names=names, site=sites)
    return json.loads(json.dumps([each.to_json() for each in audit(folder / "a.npz", groups=["site"])]))


def test_well_formed_with_every_figure_in_its_place(audited: list[dict], tmp_path: Path) -> None:
    page = write_audit_page(audited, tmp_path / "a.html", repair_commands=["surefoot calibrate a.npz"])
    document = read(page)
    places = {"reliability-0-0", "reliability-0-1", "classes-0", "slices-0-0", "risk"}
    assert set(figures(page)) == places
    assert places <= set(document.ids())
    text = page.read_text(encoding="utf-8")
    assert NASTY not in text
    sentence = audited[0]["sentence"].split(";")[0]
    assert sentence[1:] in text
    assert "<code>surefoot calibrate a.npz</code>" in text
    for word in ("smooth ECE", "AURC", "Whiskers", "All 3"):
        assert word in text


def test_consistency_bars_are_those_of_the_audit(audited: list[dict], tmp_path: Path) -> None:
    page = write_audit_page(audited, tmp_path / "a.html")
    (bars,) = (trace for trace in figures(page)["reliability-0-0"][""]["data"] if "error_y" in trace)
    diagram = audited[0]["verdict"]["reliability"]
    filled = [b for b, n in enumerate(diagram["count"]) if n]
    highs = [y + up for y, up in zip(bars["y"], bars["error_y"]["array"], strict=True)]
    assert highs == pytest.approx([diagram["high"][b] for b in filled], rel=1e-5)  # figures hold six digits
    lows = [y - down for y, down in zip(bars["y"], bars["error_y"]["arrayminus"], strict=True)]
    assert lows == pytest.approx([diagram["low"][b] for b in filled], rel=1e-5, abs=1e-6)


def test_built_without_torch(audited: list[dict], tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(audited))
    code = (
        "import json, sys\nfrom surefoot.report.audit_page import write_audit_page\n"
        f"write_audit_page(json.load(open({str(tmp_path / 'a.json')!r})), {str(tmp_path / 'a.html')!r})\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flags", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_every_figure_is_drawn(audited: list[dict], tmp_path: Path, flags: tuple[str, ...]) -> None:
    page = write_audit_page(audited, tmp_path / "a.html")
    document = drawn_page(page, tmp_path / "profile", *flags)
    root = re.search(r"<html[^>]*>", document)[0]
    assert 'data-drawn="5"' in root
    assert "data-trouble" not in root
    assert len(re.findall(r'<div class="plot-container plotly"', document)) == 5
    assert 'class="yerror"' in document  # the consistency bars


def test_two_files_on_one_page(tmp_path: Path) -> None:
    logits, labels = made(300)
    np.savez(tmp_path / "a.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "b.npz", logits=3 * logits, labels=labels)
    both = compare_audits(tmp_path / "a.npz", tmp_path / "b.npz")
    page = write_audit_page([both.a.to_json(), both.b.to_json()], tmp_path / "c.html", comparison=both.to_json())
    assert {"reliability-0-0", "reliability-1-0", "classes-1"} <= set(figures(page))
    assert len(figures(page)["risk"][""]["data"]) == 2
    text = page.read_text(encoding="utf-8")
    assert "A is better calibrated: its confidence is off by " in text
    assert "A: a.npz: " in text
    assert read(page).opened == []
