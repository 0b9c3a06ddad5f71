"""The page in a real browser: every figure is drawn and nothing goes wrong on the way."""

from __future__ import annotations

import gzip
import json
import re
from importlib import resources
from pathlib import Path

import pytest

from surefoot.report.audit_figures import slice_figure
from surefoot.report.marks import mark_of
from surefoot.report.measures import Measure
from surefoot.report.page import write_page
from surefoot.report.shift import ShiftRow, ShiftSummary
from surefoot.report.shift_figures import _curves
from surefoot.report.summary import summarise
from surefoot.statistics import Spread
from tests.report.browser import add_script, drawn_page, find_browser, repack, unpacked
from tests.runs import MEASURES, fake_run

SCRIPT = "<script>window.hacked = document.documentElement.dataset.trouble = 'hacked'</script>"


def _root(document: str) -> str:
    return re.search(r"<html[^>]*>", document)[0]


def _svgs(document: str) -> int:
    """Count drawn plots: Plotly puts each into a container of its own."""
    return len(re.findall(r'<div class="plot-container plotly"', document))


@pytest.mark.parametrize("flags", [(), ("--blink-settings=preferredColorScheme=0",)], ids=["light", "dark"])
def test_every_figure_is_drawn_without_an_error(tmp_path: Path, flags: tuple[str, ...]) -> None:
    runs = [fake_run(tmp_path, method, seed) for method in ("sgd", SCRIPT, "--ink") for seed in (0, 1)]
    page = write_page(summarise(runs), tmp_path / "report.html")
    document = drawn_page(page, tmp_path / "profile", *flags)
    assert 'data-drawn="6"' in _root(document)
    assert "data-trouble" not in _root(document)
    assert _svgs(document) == 6
    assert len(re.findall(r'<svg[^>]*class="main-svg"', document)) >= 6
    ink = "rgb(232, 234, 236)" if flags else "rgb(28, 33, 38)"
    assert f"stroke: {ink}" in document  # the diagonal follows the colour scheme


def test_the_switch_redraws_the_reliability_diagrams(tmp_path: Path) -> None:
    after = {"count": [0, 0, 10], "confidence": [None, None, 0.8], "accuracy": [None, None, 0.7]}
    before = {"count": [5, 3, 2], "confidence": [0.2, 0.5, 0.9], "accuracy": [0.2, 0.3, 1.0]}
    run = fake_run(tmp_path, bins={None: before, "temperature": after}, quality=False)
    page = write_page(summarise([run]), tmp_path / "report.html")
    bars = {"as trained": 3, "after": 1}
    counted = {}
    for name in bars:
        (tmp_path / "pressed.html").write_bytes(page.read_bytes())
        if name == "after":
            press = "setTimeout(() => document.querySelector('input[value=temperature]').click(), 1000)"
            add_script(tmp_path / "pressed.html", press)
        document = drawn_page(tmp_path / "pressed.html", tmp_path / f"profile-{name[:2]}")
        assert "data-trouble" not in _root(document)
        first = re.search(r'<g class="trace bars".*?</g></g></g>', document, re.DOTALL)[0]
        counted[name] = len(re.findall(r'<g class="point"', first))
    assert counted == bars


def test_an_error_in_the_page_would_be_seen(tmp_path: Path) -> None:
    page = write_page(summarise([fake_run(tmp_path)]), tmp_path / "report.html")
    repack(page, "figures", unpacked(page, "figures").replace('"id":"curve-loss"', '"id":"no-such-place"'))
    assert "data-trouble" in _root(drawn_page(page, tmp_path / "profile"))


def test_a_missing_browser_fails_where_one_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SUREFOOT_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="Install chromium"):
        find_browser()
    monkeypatch.setenv("SUREFOOT_REQUIRE_BROWSER", "0")
    with pytest.raises(pytest.skip.Exception, match="install chromium"):
        find_browser()


def test_a_script_that_is_not_the_pages_own_does_not_run(tmp_path: Path) -> None:
    page = write_page(summarise([fake_run(tmp_path, "sgd", 0)]), tmp_path / "r.html")
    text = page.read_text(encoding="utf-8")
    assert "unsafe-inline" not in text[: text.index("<style>")]
    page.write_text(text.replace("</body>", "<script>document.title = 'it ran'</script></body>"), encoding="utf-8")
    document = drawn_page(page, tmp_path / "profile")
    assert "<title>it ran</title>" not in document
    assert 'data-trouble="script-src-elem"' in _root(document)


@pytest.mark.parametrize("width", [1200, 1280])
def test_the_table_of_results_is_seen_whole(tmp_path: Path, width: int) -> None:
    """Three methods with intervals: no column is cut off, and nothing widens the page."""
    runs = [
        fake_run(
            tmp_path,
            method,
            seed,
            measures={key: 10 * (key == "nll") + value + 0.01 * seed * order for key, value in MEASURES.items()},
            seconds=1234.5 + seed,
            passes=128000,
        )
        for order, method in enumerate(("sgd", "sam", "csam:gamma=2,rho=0.1"))
        for seed in (0, 1, 2)
    ]
    page = write_page(summarise(runs), tmp_path / "report.html")
    sizes = "[e.clientWidth, e.scrollWidth]"
    tell = f"document.title = JSON.stringify([...document.querySelectorAll('html, .scroll')].map((e) => {sizes}))"
    add_script(page, tell)
    document = drawn_page(page, tmp_path / "profile", f"--window-size={width},900")
    found = json.loads(re.search(r"<title>(\[\[.*?\]\])</title>", document)[1])
    assert len(found) == 5
    assert all(whole <= seen for seen, whole in found), found


def test_a_narrow_page_is_no_wider_than_its_window(tmp_path: Path) -> None:
    """Its tables scroll on their own; what only screen readers see does not stick out of them."""
    page = write_page(
        summarise([fake_run(tmp_path, m, s) for m in ("sgd", "sam") for s in (0, 1)]), tmp_path / "r.html"
    )
    tell = "const e = document.documentElement; document.title = JSON.stringify([e.clientWidth, e.scrollWidth])"
    add_script(page, tell)
    document = drawn_page(page, tmp_path / "profile", "--window-size=500,900")
    seen, whole = json.loads(re.search(r"<title>(\[.*?\])</title>", document)[1])
    assert whole == seen <= 500


def test_ticks_of_close_percentages_are_told_apart(tmp_path: Path) -> None:
    """Gaps of slices between −10 and −8.8 %, and ECE between 3.1 and 3.9 % under shift."""
    verdict = {"n": 50, "finding": "under-confident"}
    slices = [
        {"value": name, **verdict, "verdict": verdict, "gap": {"estimate": at, "low": at - 0.001, "high": at + 0.001}}
        for name, at in (("a", -0.099), ("b", -0.089))
    ]
    column = Measure("ece", "ECE")
    cells = {("", 0): {"ece": Spread(0.031, None, 1)}, ("fog", 1): {"ece": Spread(0.039, None, 1)}}
    method = summarise([fake_run(tmp_path)]).rows[0]
    row = ShiftRow(method, (0,), cells, {"ece": Spread(0.039, None, 1)}, {}, None, {})
    shift = ShiftSummary((row,), ("fog",), (1,), 10, None)
    drawn = {"slices": slice_figure(slices, mark_of(0)), "curves": _curves(shift, column, "fog")}
    packed = resources.files("surefoot.report").joinpath("plotly", "plotly.min.js.gz").read_bytes()
    plotly = gzip.decompress(packed).decode()
    divs = "".join(f'<div id="{name}" style="width:600px"></div>' for name in drawn)
    calls = "".join(
        f"Plotly.newPlot('{n}', {json.dumps(f['data'])}, {json.dumps(f['layout'])});" for n, f in drawn.items()
    )
    page = tmp_path / "ticks.html"
    page.write_text(f"<body>{divs}<script>{plotly}</script><script>{calls}</script></body>", encoding="utf-8")
    document = drawn_page(page, tmp_path / "profile")
    for kind, at_least in (("x", 3), ("y", 3)):
        place = document.partition(f'id="{"slices" if kind == "x" else "curves"}"')[2].partition('<div id="')[0]
        labels = re.findall(rf'<g class="{kind}tick"><text[^>]*>([^<]*)<', place)
        assert len(labels) >= at_least, labels
        assert len(set(labels)) == len(labels), labels
