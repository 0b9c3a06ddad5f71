"""The page in a real browser: every figure is drawn and nothing goes wrong on the way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from surefoot.report.page import write_page
from surefoot.report.summary import summarise
from tests.report.browser import drawn_page, find_browser
from tests.runs import fake_run

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
        text = page.read_text(encoding="utf-8")
        if name == "after":
            press = "setTimeout(() => document.querySelector('input[value=temperature]').click(), 1000)"
            text = text.replace("</body>", f"<script>{press}</script></body>")
        (tmp_path / "pressed.html").write_text(text, encoding="utf-8")
        document = drawn_page(tmp_path / "pressed.html", tmp_path / f"profile-{name[:2]}")
        assert "data-trouble" not in _root(document)
        first = re.search(r'<g class="trace bars".*?</g></g></g>', document, re.DOTALL)[0]
        counted[name] = len(re.findall(r'<g class="point"', first))
    assert counted == bars


def test_an_error_in_the_page_would_be_seen(tmp_path: Path) -> None:
    page = write_page(summarise([fake_run(tmp_path)]), tmp_path / "report.html")
    broken = page.read_text(encoding="utf-8").replace('"id": "curve-loss"', '"id": "no-such-place"')
    page.write_text(broken, encoding="utf-8")
    assert "data-trouble" in _root(drawn_page(page, tmp_path / "profile"))


def test_a_missing_browser_fails_where_one_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("SUREFOOT_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="Install chromium"):
        find_browser()
    monkeypatch.setenv("SUREFOOT_REQUIRE_BROWSER", "0")
    with pytest.raises(pytest.skip.Exception, match="install chromium"):
        find_browser()
