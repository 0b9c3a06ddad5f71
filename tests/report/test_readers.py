"""Every kind of page for everybody: screen readers and keyboards, phones, paper, both colour schemes, no network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.axe import serious
from tests.report.kinds import KINDS
from tests.report.live import LivePage

MOST = 2_000_000  # bytes
DRAWN = "document.documentElement.dataset.drawn"
TROUBLE = "document.documentElement.dataset.trouble ?? ''"
# Texts of a figure that lie on each other, and what sticks out of its card.
COLLISIONS = """JSON.stringify([...document.querySelectorAll('.plot:not([hidden])')].flatMap((plot) => {
  const card = plot.closest('.card').getBoundingClientRect();
  const texts = [...plot.querySelectorAll('.xtick text, .ytick text, .y2tick text, .xtitle, .ytitle, .y2title')];
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const found = boxes.flatMap(([one, a], i) =>
    boxes.slice(i + 1).filter(([, b]) => meet(a, b)).map(([two]) => [plot.id, one, two]));
  const svg = plot.querySelector('.main-svg')?.getBoundingClientRect();
  return svg && svg.right > card.right + 1 ? [...found, [plot.id, svg.right, card.right]] : found;
}))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePage]:
    with LivePage(tmp_path_factory.mktemp("profile")) as page:
        page.call("Network.enable")
        page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        yield page


@pytest.fixture(scope="module", params=list(KINDS))
def page(request: pytest.FixtureRequest, browser: LivePage, tmp_path_factory: pytest.TempPathFactory) -> LivePage:
    """A page of one kind, open; each test looks at it in its own way."""
    path = KINDS[request.param](tmp_path_factory.mktemp(request.param))
    assert path.stat().st_size < MOST
    browser.look(1280)
    browser.open(path.as_uri())
    browser.until(f"location.href.endsWith('{path.name}') && {DRAWN}")
    return browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_stands_in_the_way_of_a_screen_reader(page: LivePage, scheme: str) -> None:
    page.look(1280, scheme)
    soft = "getComputedStyle(document.querySelector('.kicker')).color"
    page.until(f"[...document.querySelectorAll('.xtick text')].every((t) => getComputedStyle(t).fill === {soft})")
    page.ask("for (const part of document.querySelectorAll('details')) part.open = true")
    assert serious(page) == []
    assert page.ask(TROUBLE) == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_no_words_lie_on_each_other_and_nothing_is_cut_off(page: LivePage, width: int) -> None:
    page.look(width)
    page.until(f"{COLLISIONS} === '[]'")
    assert page.ask("document.documentElement.scrollWidth") == width


def test_everything_that_can_be_done_is_done_by_keyboard(page: LivePage) -> None:
    """Whatever scrolls or switches takes the focus, and the first stop skips to the results."""
    page.look(390)
    stuck = """[...document.querySelectorAll('*')].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0
      && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)).map((e) => e.outerHTML.slice(0, 80))"""
    assert page.ask(stuck) == []
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert page.ask("document.activeElement.className") == "skip"
    assert page.ask("document.querySelector(document.activeElement.getAttribute('href')) !== null")


def test_on_paper_everything_is_light_and_fits(page: LivePage) -> None:
    """A page of a dark screen, as it stands just before it is printed."""
    page.look(1280, "dark", media="print")
    page.ask("window.dispatchEvent(new Event('beforeprint'))")
    page.until(f"{COLLISIONS} === '[]'")
    right = "(part) => part.getBoundingClientRect().right"
    sheet = page.ask(f"({right})(document.querySelector('main'))")
    assert page.ask("document.querySelector('main').clientWidth") <= 680
    assert max(page.ask(f"[...document.querySelectorAll('table, .card')].map({right})")) <= sheet + 1
    assert page.ask("getComputedStyle(document.body).color") == "rgb(28, 33, 38)"
    assert page.ask(TROUBLE) == ""
    page.look(1280)
    page.ask("window.dispatchEvent(new Event('afterprint'))")  # and back as wide as its card
    plots = "[...document.querySelectorAll('.plot:not([hidden])')]"
    page.until(f"{plots}.every((p) => Math.abs(p.querySelector('.main-svg').clientWidth - p.clientWidth) < 2)")


def test_a_page_that_could_not_be_read_would_be_found(browser: LivePage, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    text = '<html data-drawn="1"><body><img src="data:,"><p style="color:#ccc;background:#fff">pale</p></body></html>'
    bad.write_text(text, encoding="utf-8")
    browser.look(1280)
    browser.open(bad.as_uri())
    browser.until("document.querySelector('p')?.textContent === 'pale'")
    assert {"image-alt", "color-contrast", "html-has-lang"} <= {each.partition(":")[0] for each in serious(browser)}
