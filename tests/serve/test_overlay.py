"""Several runs in one chart, by mouse and keyboard, for every reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from surefoot.serve import WatchServer
from surefoot.serve.runs import key_of
from tests.report.axe import serious
from tests.report.live import LivePage
from tests.runs import fake_run

LINES = "document.querySelectorAll('#chart-accuracy path.line').length"


def comparison(folder: Path) -> list[str]:
    """Write two methods with two seeds each, and a run elsewhere."""
    runs = [fake_run(folder / "compared", method, seed, epochs=8) for method in ("sgd", "csam") for seed in (0, 1)]
    fake_run(folder / "elsewhere", "sam", epochs=4)
    return [key_of(run.path) for run in runs]


def press(page: LivePage, key: str, code: str, number: int, text: str = "") -> None:
    more = {"key": key, "code": code, "windowsVirtualKeyCode": number}
    page.call("Input.dispatchKeyEvent", type="keyDown", text=text, **more)
    page.call("Input.dispatchKeyEvent", type="keyUp", **more)


def test_runs_are_drawn_together_and_told_apart(tmp_path: Path) -> None:
    keys = comparison(tmp_path / "runs")
    with WatchServer([tmp_path / "runs"], port=0) as server, LivePage(tmp_path / "profile") as page:
        page.open(f"{server.url}#run={keys[0]}")
        page.until(f"{LINES} === 2")  # train and held out of one run
        page.ask("document.querySelector('#together').click()")
        page.until("document.documentElement.dataset.lines === '4'")
        page.until(f"{LINES} === 4")
        assert page.ask("document.querySelector('#groups').textContent") == "sgd, mean of 2 runscsam, mean of 2 runs"
        drawn = "new Set([...document.querySelectorAll('#chart-accuracy path.line')].map((p) => {0})).size"
        for told_apart in ("getComputedStyle(p).stroke", "getComputedStyle(p).strokeDasharray"):
            assert page.ask(drawn.format(told_apart)) == 2  # in grey too
        page.call("Page.reload")
        page.until("document.documentElement.dataset.lines === '4'")  # a reload keeps them
        page.ask("document.querySelector('#runs tr:not([aria-current]) input:checked').click()")
        page.until("document.documentElement.dataset.lines === '3'")
        page.ask("document.querySelector('#alone').click()")
        page.until("document.documentElement.dataset.lines === '1'")
        assert page.ask("document.querySelector('#groups').textContent") == ""
        assert page.ask("document.documentElement.dataset.trouble") is None


def test_the_keyboard_chooses_runs_and_looks_closer(tmp_path: Path) -> None:
    keys = comparison(tmp_path / "runs")
    with WatchServer([tmp_path / "runs"], port=0) as server, LivePage(tmp_path / "profile") as page:
        page.open(f"{server.url}#run={keys[0]}")
        page.until(f"{LINES} === 2")
        reached = []
        for _ in range(40):
            press(page, "Tab", "Tab", 9)
            reached.append(page.ask("document.activeElement.id || document.activeElement.type || ''"))
        assert {"from", "to", "together", "checkbox"} <= set(reached)
        page.ask("document.querySelector('#runs input:not(:checked)').focus()")
        press(page, " ", "Space", 32, " ")
        page.until("document.documentElement.dataset.lines === '2'")
        assert page.ask("document.activeElement.type") == "checkbox"  # news do not take the focus away
        page.ask("document.querySelector('#to').focus(); document.querySelector('#to').select()")
        press(page, "3", "Digit3", 51, "3")
        press(page, "Enter", "Enter", 13, "\r")
        page.until("location.hash.endsWith('to=3')")
        page.until("!document.querySelector('#whole').hidden")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_serious(tmp_path: Path, width: int, scheme: str) -> None:
    keys = comparison(tmp_path / "runs")
    with (
        WatchServer([tmp_path / "runs"], port=0) as server,
        LivePage(tmp_path / "profile", width=width, scheme=scheme) as page,
    ):
        for chosen in (keys[:1], keys):
            page.open(f"{server.url}#run={','.join(chosen)}")
            page.until(f"document.documentElement.dataset.lines === '{len(chosen)}'")
            assert serious(page) == []
            assert page.ask("document.documentElement.scrollWidth") <= width


def test_an_empty_folder_says_what_to_expect(tmp_path: Path) -> None:
    with WatchServer([tmp_path / "nothing"], port=0) as server, LivePage(tmp_path / "profile") as page:
        page.open(server.url)
        page.until("!document.querySelector('#empty').hidden")
        assert serious(page) == []
        page.ask("document.querySelector('main').append(Object.assign(new Image(), {src: 'data:,'})), 0")
        assert "image-alt" in serious(page)[0]  # it can find something
