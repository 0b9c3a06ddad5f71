"""The page in a real browser while a real run trains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from surefoot.serve import WatchServer
from tests.patience import PATIENCE
from tests.report.live import LivePage
from tests.runs import fake_run

STATE = "document.querySelector('#facts dd').textContent"
STEP = "Number((document.documentElement.dataset.painted || '').split(' ')[1] || 0)"
RANGE = "document.querySelector('#from').value + ' to ' + document.querySelector('#to').value"
HIT = "document.documentElement.dataset.hit=1"
HOSTILE = f'<img src=x onerror="{HIT}"><script>{HIT}</script>'


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "surefoot",
        "train",
        "--out",
        str(out),
        "--data",
        "digits",
        "--model",
        "mlp:width=16",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen([*command, "--track", "cheap", *more], text=True, **quiet)


def key_text(page: LivePage, chart: str) -> str:
    return str(page.ask(f"document.querySelector('#chart-{chart} .key').textContent"))


def test_values_arrive_while_a_run_trains_and_a_kill_is_shown(tmp_path: Path) -> None:
    run = start(tmp_path / "runs" / "csam", "--method", "csam:tune=auto", "--epochs", "100000")
    try:
        with WatchServer([tmp_path / "runs"], port=0) as server, LivePage(tmp_path / "profile") as page:
            page.open(server.url)
            page.until(f"{STEP} > 0 && {STATE} === 'running'")
            assert page.ask("document.querySelector('#title').textContent") == "csam:tune=auto"
            first = page.ask(STEP)
            page.until(f"{STEP} > {first}")  # without a reload
            page.until("document.querySelectorAll('#chart-rho path').length > 0")
            for chart in ("loss", "accuracy", "ece", "gap", "margins", "rho", "gamma", "decay"):
                assert page.ask(f"document.querySelector('#chart-{chart} path').getAttribute('d').length") > 5, chart
            assert "by chance up to" in key_text(page, "ece")
            assert "95 % interval" in key_text(page, "gap")
            assert page.ask("document.querySelectorAll('#chart-reliability .bar').length") > 1
            assert "--track standard" in page.ask("document.querySelector('#chart-sharpness .note').textContent")
            page.until("document.querySelectorAll('#facts dd')[3].textContent !== '–'")  # time left
            assert page.ask("document.querySelectorAll('#findings li').length") >= 1

            run.send_signal(signal.SIGKILL)
            run.wait()
            page.until(f"{STATE} === 'interrupted'")
            page.until("document.querySelector('#findings').textContent.startsWith('Interrupted at step')")
            assert page.ask("document.documentElement.dataset.trouble") is None
    finally:
        run.kill()
        run.communicate()


def test_a_reload_keeps_its_place_and_so_does_another_server(tmp_path: Path) -> None:
    runs = [fake_run(tmp_path / "runs", seed=seed, epochs=8) for seed in range(3)]
    before = {path: path.read_bytes() for run in runs for path in run.path.rglob("*") if path.is_file()}
    with LivePage(tmp_path / "profile") as page:
        with WatchServer([tmp_path / "runs"], port=0) as server:
            port = server.server_address[1]
            page.open(server.url)
            page.until("document.querySelectorAll('#runs button').length === 3")
            assert page.ask("document.querySelector('#chart-decay').hidden")  # nobody turns it
            chosen = page.ask("document.querySelectorAll('#runs button')[2].dataset.key")
            page.ask("document.querySelectorAll('#runs button')[2].click()")
            page.until(f"document.documentElement.dataset.painted.startsWith('{chosen}')")
            box = page.ask("JSON.stringify(document.querySelector('#chart-loss svg').getBoundingClientRect())")
            drag(page, json.loads(box))
            page.until("!document.querySelector('#whole').hidden")
            shown, where = page.ask(RANGE), page.ask("location.href")
            page.call("Page.reload")
            page.until("document.documentElement.dataset.painted && !document.querySelector('#whole').hidden")
        page.until("document.querySelector('#link').dataset.live === 'no'")
        with WatchServer([tmp_path / "runs"], port=port):
            page.until("document.querySelector('#link').dataset.live === 'yes'")
            page.until(f"document.documentElement.dataset.painted.startsWith('{chosen}')")
            assert page.ask(RANGE) == shown
            assert page.ask("location.href") == where
            page.ask("document.querySelector('#whole').click()")
            page.until("document.querySelector('#whole').hidden")
    assert before == {path: path.read_bytes() for run in runs for path in run.path.rglob("*") if path.is_file()}


def drag(page: LivePage, box: dict[str, float]) -> None:
    """Mark the middle of a chart with the mouse."""
    y = box["y"] + box["height"] / 2
    for kind, share in (("mousePressed", 0.3), ("mouseMoved", 0.5), ("mouseReleased", 0.7)):
        x = box["x"] + share * box["width"]
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1, buttons=1)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    run = fake_run(tmp_path / "runs", HOSTILE)
    run.path.rename(run.path.with_name("<b onmouseover=alert(1)>x"))
    moved = tmp_path / "runs" / "<b onmouseover=alert(1)>x"
    with (moved / "steps.jsonl").open("a") as file:
        file.write(json.dumps({"tracker": HOSTILE, "failed": HOSTILE, "step": HOSTILE}) + "\n")
        file.write(
            json.dumps({
                "tracker": "quality",
                "step": 20,
                "bins": {"split": HOSTILE, "count": [1], "confidence": [0.5], "accuracy": [0.5]},
            })
            + "\n"
        )
    with WatchServer([tmp_path / "runs"], port=0) as server, LivePage(tmp_path / "profile") as page:
        page.open(f"{server.url}#run={HOSTILE}&from=<script>&to=x")
        page.until("document.documentElement.dataset.painted")
        page.until("document.querySelector('#chart-reliability .key').textContent.includes('<img')")
        assert page.ask("document.querySelector('#title').textContent") == HOSTILE
        assert "measures nothing" in page.ask("document.querySelector('#findings').textContent")
        assert page.ask("document.querySelectorAll('main img, main script, main b').length") == 0
        assert page.ask("document.documentElement.dataset.hit") is None
        assert page.ask("document.documentElement.dataset.trouble") is None


def test_it_fits_a_phone(tmp_path: Path) -> None:
    fake_run(tmp_path / "runs", "csam")
    with WatchServer([tmp_path / "runs"], port=0) as server, LivePage(tmp_path / "profile", width=390) as page:
        page.open(server.url)
        page.until("document.documentElement.dataset.painted")
        assert page.ask("document.documentElement.scrollWidth") <= 390


def test_train_starts_it_beside_and_it_ends_with_the_training(tmp_path: Path) -> None:
    run = start(tmp_path / "run", "--epochs", "100000", "--watch")
    assert run.stderr is not None
    try:
        url = next(line.split()[1] for line in run.stderr if line.startswith("Watch: "))
        assert url.startswith("http://127.0.0.1:")
        with LivePage(tmp_path / "profile") as page:
            page.open(url)
            page.until(f"{STEP} > 0 && {STATE} === 'running'")
            os.kill(run.pid, signal.SIGKILL)
            run.wait()
            page.until("document.querySelector('#link').dataset.live === 'no'")  # nothing is left behind
    finally:
        run.kill()
        run.communicate()


def test_watch_prints_its_address_and_follows_what_comes_later(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "surefoot", "watch", str(tmp_path / "later"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().removeprefix("Watch: ").strip()
            with LivePage(tmp_path / "profile") as page:
                page.open(url)
                page.until("document.querySelector('#link').dataset.live === 'yes'")
                assert page.ask("document.querySelector('#title').textContent") == "Waiting for runs"
                fake_run(tmp_path / "later", "csam")
                page.until("document.querySelector('#title').textContent === 'csam'")
        finally:
            server.send_signal(signal.SIGINT)
            deadline = time.monotonic() + PATIENCE
            while server.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert server.returncode == 130
