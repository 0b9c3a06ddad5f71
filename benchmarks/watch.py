"""What watching costs: training with and without an open page, and how soon a page of many long runs shows something.

    python benchmarks/watch.py              # slowdown, as a ratio of medians, and first paint in Chromium
    python benchmarks/watch.py --findings   # how often the rules speak, of honest noise and of what they are for

Within one training the page's server sleeps and wakes in turns of a second, and neighbouring turns are compared, so
that what else the machine does hits both alike; server and page are other processes. On a busy machine seconds say
little, and seconds of the processor say more: those of the training, and those of the server beside it.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SERVE = [sys.executable, "-m", "surefoot", "watch"]
LISTEN = "import sys, urllib.request\nfor _ in urllib.request.urlopen(sys.argv[1] + 'events'): pass"
WHAT = {"data": "fashion", "method": "sam", "track": "cheap"}


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


class Turns:
    """Lets the server sleep and wake in turns while a run trains, and notes what a step costs in each turn.

    Args:
        server: The process that serves the page.
        length: Seconds of a turn.
    """

    def __init__(self, server: int, length: float) -> None:
        self._server, self._length, self._turn, self._steps = server, length, -1, 0
        self._began = (0.0, 0.0)
        self.found: list[tuple[bool, float, float]] = []  # awake, seconds and those of the processor per step

    def __call__(self, news: object) -> None:
        """Hear of a step."""
        self._steps += 1
        now = time.perf_counter(), time.process_time()
        if now[0] - self._began[0] < self._length:
            return
        if self._turn >= 0:
            wall, used = ((end - start) / self._steps for end, start in zip(now, self._began, strict=True))
            self.found.append((self._is_awake(), wall, used))
        self._turn += 1
        os.kill(self._server, signal.SIGCONT if self._is_awake() else signal.SIGSTOP)
        self._steps, self._began = 0, (time.perf_counter(), time.process_time())

    def _is_awake(self) -> bool:
        return bool((self._turn + self._turn // 2) % 2)  # plain, watched, watched, plain, …


def slowdown(turns: int, length: float) -> None:
    """Print what a step costs with and without an open page, in turns within one training."""
    from surefoot.api import train

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        with page_open(out) as server:
            heard = Turns(server.pid, length)

            def listen(news: object) -> None:
                heard(news)
                if len(heard.found) >= turns:
                    raise KeyboardInterrupt  # it is as long as it has to be

            before, start = processor(server.pid), time.monotonic()
            with suppress(KeyboardInterrupt):
                train(out=str(out), epochs=10_000, **WHAT, progress=lambda jobs: listen)
            os.kill(server.pid, signal.SIGCONT)
            share = 2 * (processor(server.pid) - before) / (time.monotonic() - start)  # it was awake for half of it
    print(f"{turns} turns of {length:g} s; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("| milliseconds per step | plain | watched | ratio | 95 % interval |\n|---|---:|---:|---:|---|")
    for row, name in ((2, "of the processor, training"), (1, "wall")):
        pairs = [heard.found[i : i + 2] for i in range(0, len(heard.found) - 1, 2)]  # each has one of both
        ratios = [math.log(a[row] / b[row]) * (1 if a[0] else -1) for a, b in pairs]
        low, high = interval(ratios)
        plain, beside = (statistics.median(t[row] for t in heard.found if t[0] == awake) for awake in (False, True))
        middle = math.exp(statistics.median(ratios))
        print(f"| {name} | {1e3 * plain:.2f} | {1e3 * beside:.2f} | {middle:.4f} | {low:.4f} to {high:.4f} |")
    print(f"server: {100 * share:.2f} % of one core while it is awake")


def own_loop(repeats: int, steps: int = 2000) -> None:
    """Print what a call of ``sf.watch`` costs in a loop of one's own, writing included, trackers not."""
    import torch

    import surefoot as sf

    torch.set_num_threads(1)
    model = torch.nn.Linear(20, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows, loss = (torch.randn(40, 20), torch.arange(40) % 3), torch.tensor(0.5)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        told = {"train": rows, "test": rows, "epochs": repeats, "steps_per_epoch": steps}
        with sf.watch(optimizer, model, out=f"{folder}/run", track=f"quality:every={10**9}", **told) as watched:
            for _ in range(repeats):
                start = time.perf_counter()
                for _ in range(steps):
                    watched(loss)
                watched._write()  # what waits is written too
                found.append((time.perf_counter() - start) / steps)
    each = statistics.median(found)
    print(f"sf.watch in a loop of one's own: {1e6 * each:.1f} µs per step (median of {repeats} × {steps:,} steps; ")
    print(f"least {1e6 * min(found):.1f}), trackers not counted: 1 % of a step of {1e5 * each:.1f} ms")


def interval(ratios: list[float], draws: int = 4000) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the median of ratios, which are given as logarithms."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(draws))
    return math.exp(medians[int(0.025 * draws)]), math.exp(medians[int(0.975 * draws)])


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
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--length", type=float, default=1.0, help="seconds of a turn")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--only", choices=("slowdown", "paint", "own"))
    parser.add_argument("--findings", nargs="?", const="", help="which rules, by a part of their names; else all")
    given = parser.parse_args()
    start = time.monotonic()
    if given.findings is not None:
        from benchmarks._watch_findings import print_table

        print_table(given.findings)
        return
    if given.only in (None, "paint"):
        first_paint(given.runs, given.steps, 3)
    if given.only in (None, "own"):
        own_loop(11)
    if given.only in (None, "slowdown"):
        slowdown(given.turns, given.length)
    print(f"({time.monotonic() - start:.0f} s in all)")


if __name__ == "__main__":
    main()
