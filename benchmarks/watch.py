"""What watching costs: training with and without an open page, and how soon a page of many long runs shows something.

    python benchmarks/watch.py              # slowdown, as a ratio of medians, and first paint in Chromium
    python benchmarks/watch.py --findings   # how often the rules speak, of honest noise and of what they are for

Runs with and without a watching page take turns, so that what else the machine does hits both alike. On a busy machine
seconds say little, and seconds of the processor say more: those of the training, and those of the server beside it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SERVE = [sys.executable, "-m", "surefoot", "watch"]


def train(out: Path, epochs: int) -> float:
    """Train one run in a process of its own, and return the seconds that it says training took."""
    what = ["--data", "fashion", "--method", "sam", "--track", "cheap", "--epochs", str(epochs)]
    command = [sys.executable, "-m", "surefoot", "train", "--out", str(out), *what]
    subprocess.run(command, check=True, capture_output=True)
    return float(json.loads((out / "done.json").read_text())["seconds"])


def processor() -> float:
    """Return the seconds of the processor that ended child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def listen(url: str, ended: threading.Event) -> None:
    """Be an open page: read the stream for as long as it lasts."""
    host = url.removeprefix("http://").rstrip("/")
    link = http.client.HTTPConnection(host, timeout=60)
    link.request("GET", "/events")
    answer = link.getresponse()
    while not ended.is_set() and answer.readline():
        pass


def slowdown(repeats: int, epochs: int) -> None:
    """Print the ratio of medians."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    used: dict[bool, list[float]] = {False: [], True: []}
    served, lasted = 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(2 * repeats):
            watched = bool((turn + turn // 2) % 2)  # plain, watched, watched, plain, …
            out = Path(folder) / f"run-{turn}"
            server = None
            ended = threading.Event()
            if watched:
                server = subprocess.Popen([*SERVE, str(out), "--port", "0"], stdout=subprocess.PIPE, text=True)
                assert server.stdout is not None
                url = server.stdout.readline().split()[1]
                threading.Thread(target=listen, args=(url, ended), daemon=True).start()
            before, start = processor(), time.monotonic()
            seconds[watched].append(train(out, epochs))
            used[watched].append(processor() - before)
            if server is not None:
                ended.set()
                before = processor()
                server.terminate()
                server.wait()
                served, lasted = served + processor() - before, lasted + time.monotonic() - start
    plain, beside = (statistics.median(seconds[watched]) for watched in (False, True))
    noise = statistics.median(abs(value - plain) for value in seconds[False]) / plain
    print(f"training, median of {repeats}: {plain:.2f} s plain, {beside:.2f} s watched")
    ours = statistics.median(used[True]) / statistics.median(used[False])
    print(f"ratio of medians of the training's processor time: {ours:.4f}")
    print(f"processor time of the server, with its start: {100 * served / lasted:.1f} % of one core")
    print(f"ratio of medians: {beside / plain:.4f}; median deviation of plain runs: {100 * noise:.1f} %")


def many_runs(folder: Path, runs: int, steps: int) -> None:
    """Write folders of long finished runs."""
    from tests.runs import fake_run

    for number in range(runs):
        run = fake_run(folder, seed=number, epochs=2)
        stamp = {"run": run.run_id, "seed": number, "split": "train", "lr": 0.1}
        each = ({"step": s, "epoch": s // 100, "passes": s, "loss": 1 / s} for s in range(1, steps + 1))
        run.append_steps({**stamp, **record} for record in each)


def first_paint(runs: int, steps: int, repeats: int) -> None:
    """Print how long after opening it a page has drawn its curves, by the browser's own clock."""
    from tests.report.live import LivePage

    from surefoot.serve import WatchServer

    with tempfile.TemporaryDirectory() as folder:
        many_runs(Path(folder) / "runs", runs, steps)
        drawn, first = [], []
        for number in range(repeats):
            profile = Path(folder) / f"profile-{number}"
            with WatchServer([Path(folder) / "runs"], port=0) as server, LivePage(profile) as page:
                page.open(server.url)
                page.until("document.documentElement.dataset.drawn && performance.getEntriesByType('paint').length")
                first.append(page.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
                drawn.append(page.ask("Number(document.documentElement.dataset.drawn)"))
    print(f"{runs} runs × {steps:,} steps, median of {repeats}: first paint {statistics.median(first):.0f} ms,")
    print(f"list and curves drawn {statistics.median(drawn):.0f} ms after opening")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", choices=("slowdown", "paint"))
    parser.add_argument("--findings", action="store_true")
    given = parser.parse_args()
    start = time.monotonic()
    if given.findings:
        from benchmarks._watch_findings import print_table

        print_table()
        return
    if given.only != "slowdown":
        first_paint(given.runs, given.steps, 3)
    if given.only != "paint":
        slowdown(given.repeats, given.epochs)
    print(f"({time.monotonic() - start:.0f} s in all)")


if __name__ == "__main__":
    main()
