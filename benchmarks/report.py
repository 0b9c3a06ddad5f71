"""What the report page of many long runs weighs, and how soon it shows something in Chromium.

    python benchmarks/report.py     # 50 runs × 10,000 steps, of 50 methods and of 10; 300 methods

Runs are made up and written by the real record writer: a record per step, and trackers that look at every tenth.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

CASES = ((50, 1, 10_000), (300, 1, 1_000), (10, 5, 10_000))  # methods, seeds, steps
SEEN = ("loss", "accuracy", "ece", "margin_median", "margin_q10", "margin_share_negative")


def looks(steps: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield made-up records of steps and trackers, under a learning rate that a cosine takes to 0."""
    draw = random.Random(seed)
    for step in range(steps + 1):
        done, noise = step / steps, draw.gauss(0, 0.01)
        if step:
            yield {"seed": seed, "step": step, "epoch": int(done * 20), "loss": 2 * math.exp(-4 * done), "passes": step}
        if step % 10:
            continue
        values = (2 * math.exp(-4 * done), 1 - math.exp(-3 * done), 0.05 + 0.04 * done, done, done / 2, 0.5 - done / 2)
        for_test = {f"test/{key}": abs(value + 2 * noise) for key, value in zip(SEEN, values, strict=True)}
        for_train = {f"train/{key}": abs(0.9 * value + noise) for key, value in zip(SEEN, values, strict=True)}
        yield {"seed": seed, "step": step, "epoch": int(done * 20), "tracker": "quality", **for_train, **for_test}
        limit = 4 / (0.1 * (1 + math.cos(math.pi * min(done, 0.999))))
        sharp = {"gn_sharpness/value": 5 + 30 * done + 100 * abs(noise), "gn_sharpness/two_over_lr": limit}
        yield {"seed": seed, "step": step, "epoch": int(done * 20), "tracker": "gn_sharpness", **sharp}


def write_runs(folder: Path, methods: int, seeds: int, steps: int) -> list[Any]:
    """Write finished runs."""
    from tests.runs import fake_run

    count = [max(0, 40 * b - 100) for b in range(15)]
    middle = [(b + 0.5) / 15 if n else None for b, n in enumerate(count)]
    right = [None if m is None else m - 0.05 for m in middle]
    bins = {name: {"count": count, "confidence": middle, "accuracy": right} for name in (None, "temperature")}
    runs = []
    for index in range(methods):
        for seed in range(seeds):
            options = {"lr": 0.1, "momentum": 0.9, "rho": 0.001 * index}
            run = fake_run(folder, f"method-{index}", seed, epochs=20, quality=False, options=options, bins=bins)
            run.append_steps(looks(steps, seed + seeds * index))
            runs.append(run)
    return runs


def measure(methods: int, seeds: int, steps: int, repeats: int) -> None:
    """Print size, first paint and the time until all figures are drawn, by the browser's own clock."""
    from tests.report.live import LivePage

    from surefoot.report.page import write_page
    from surefoot.report.summary import summarise

    with tempfile.TemporaryDirectory() as folder:
        runs = write_runs(Path(folder) / "runs", methods, seeds, steps)
        start = time.monotonic()
        path = write_page(summarise(runs), Path(folder) / "report.html")
        made = time.monotonic() - start
        first, drawn = [], []
        for number in range(repeats):
            with LivePage(Path(folder) / f"profile-{number}") as page:
                page.open(path.as_uri())
                drawn.append(page.until("Number(document.documentElement.dataset.took)"))
                assert page.ask("document.documentElement.dataset.trouble ?? ''") == ""
                first.append(page.ask("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        size = path.stat().st_size / 1e6
    print(f"{methods} methods × {seeds} seeds × {steps:,} steps, median of {repeats}: {size:.2f} MB, ", end="")
    print(f"first paint {statistics.median(first):.0f} ms, all drawn after {statistics.median(drawn):.0f} ms ", end="")
    print(f"(written in {made:.0f} s)", flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--case", type=int, nargs=3, metavar=("METHODS", "SEEDS", "STEPS"), help="this one only")
    given = parser.parse_args()
    for methods, seeds, steps in [given.case] if given.case else CASES:
        measure(methods, seeds, steps, given.repeats)


if __name__ == "__main__":
    main()
