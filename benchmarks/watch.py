"""What watching costs: training with and without an open page, and how soon a page of many long runs shows something.

    python benchmarks/watch.py              # slowdown, as a ratio of medians, and first paint in Chromium
    python benchmarks/watch.py --findings   # how often the rules speak, of honest noise and of what they are for

Runs with and without an open page take turns in one process, so that what else the machine does hits both alike; the
server and the page are other processes. On a busy machine seconds say little, and seconds of the processor say more:
those of the training, and those of the server beside it.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SERVE = [sys.executable, "-m", "surefoot", "watch"]
LISTEN = "import sys, urllib.request\nfor _ in urllib.request.urlopen(sys.argv[1] + 'events'): pass"
WHAT = {"data": "fashion", "method": "sam", "track": "cheap"}


def train(out: Path, epochs: int) -> tuple[float, float]:
    """Train one run in this process, and return its seconds and those of the processor."""
    from surefoot.api import train as train_one

    wall, used = time.perf_counter(), time.process_time()
    train_one(out=str(out), epochs=epochs, **WHAT)
    return time.perf_counter() - wall, time.process_time() - used


def processor(process: int) -> float:
    """Return the seconds of the processor that another process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def page_open(out: Path) -> Iterator[subprocess.Popen[str]]:
    """Serve a run that is about to start, with a page that reads its stream of events; both are other processes."""
    server = subprocess.Popen(
        [*SERVE, str(out), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    page = subprocess.Popen(
        [sys.executable, "-c", LISTEN, server.stdout.readline().split()[1]], stderr=subprocess.DEVNULL
    )
    time.sleep(1)  # until both have started
    try:
        yield server
    finally:
        for process in (page, server):
            process.terminate()
            process.wait()
        server.stdout.close()


def slowdown(repeats: int, epochs: int) -> None:
    """Print the ratios of medians, watched over plain, with intervals."""
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    served = lasted = 0.0
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder) / "first", 1)  # imports, files, caches
        for turn in range(2 * repeats):
            watched = bool((turn + turn // 2) % 2)  # plain, watched, watched, plain, …
            out = Path(folder) / f"run-{turn}"
            if not watched:
                time.sleep(1)
                found[watched].append(train(out, epochs))
                continue
            with page_open(out) as server:
                before, start = processor(server.pid), time.monotonic()
                found[watched].append(train(out, epochs))
                served += processor(server.pid) - before
                lasted += time.monotonic() - start
    print(f"{repeats} runs each, in turns; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("| | plain | watched | ratio of medians | 95 % interval |\n|---|---:|---:|---:|---|")
    for row, name in enumerate(("seconds", "seconds of the processor, training")):
        plain, beside = ([each[row] for each in found[watched]] for watched in (False, True))
        low, high = interval(plain, beside)
        middle = statistics.median(plain), statistics.median(beside)
        print(f"| {name} | {middle[0]:.2f} | {middle[1]:.2f} | {middle[1] / middle[0]:.4f} | {low:.4f} to {high:.4f} |")
    print(f"server: {100 * served / lasted:.2f} % of one core")


def interval(plain: list[float], beside: list[float], draws: int = 4000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a ratio of medians."""
    draw = random.Random(0)
    ratios = sorted(
        statistics.median(draw.choices(beside, k=len(beside))) / statistics.median(draw.choices(plain, k=len(plain)))
        for _ in range(draws)
    )
    return ratios[int(0.025 * draws)], ratios[int(0.975 * draws)]


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
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=8)
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
