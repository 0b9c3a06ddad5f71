"""Time and memory of ``surefoot audit`` on large files, each in a process of its own.

    python benchmarks/audit.py                             # 10 million × 10 and 50,000 × 1,000, float32, two minutes
    python benchmarks/audit.py --quick                     # a tenth of the rows
    python benchmarks/audit.py --quick --formats npz parquet csv jsonl   # needs surefoot[files]
    python benchmarks/audit.py --parts parquet             # a file read 1 and 10 times, a million rows each
    python benchmarks/audit.py --parts parquet --rows 1e9  # a billion rows, 15 to 25 minutes on one core
    python benchmarks/audit.py --parts tokens              # a (64, 512, 50257) stream of logits, never held as a whole
    python benchmarks/audit.py --engine ray                # rows per second of 1, 2 and 4 Ray workers on this machine

Memory is the peak resident size (VmHWM, so this runs on Linux) beyond that of the same process after the audit of a
small file of the same format, so imports do not count. Written files go to a temporary folder. With
``--parts parquet``, a score and a label per row, memory is the peak of the whole process, and seconds are those of its
one core (others may use the machine) and of the clock; with ``--parts tokens`` those of one core without
the making of the logits. What is fitted on sampled rows is a part of them that does not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

SCRIPT = """
import json, sys, time
import torch
torch.set_num_threads(1)
from surefoot.auditing import audit
def peak():
    # VmHWM, not ru_maxrss: that one starts at the peak of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
audit(sys.argv[1])
before, start = peak(), time.perf_counter()
(found,) = audit(sys.argv[2])
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": peak() - before, "sentence": found.sentence()}))
"""

PARTS_SCRIPT = """
import json, sys, time
import torch
torch.set_num_threads(1)
from surefoot.auditing import audit
start, cpu = time.perf_counter(), time.process_time()
(found,) = audit([sys.argv[1]] * int(sys.argv[2]))
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
print(json.dumps({"n": found.n, "seconds": seconds, "cpu": cpu, "bytes": peak, "sentence": found.sentence()}))
"""
PART = 1_000_000  # rows of the file that is read again and again


def make(n: int, n_classes: int) -> tuple[Any, Any]:
    """Draw over-confident logits and labels, some rows at a time."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, n_classes, n)
    logits = np.empty((n, n_classes), np.float32)
    for start in range(0, n, 100_000):
        rows = slice(start, min(n, start + 100_000))
        logits[rows] = 2 * rng.standard_normal(logits[rows].shape, dtype=np.float32)
    logits[np.arange(n), labels] += 3
    return logits, labels


def write(path: Path, n: int, n_classes: int) -> None:
    """Write logits and labels in the format that the name says."""
    logits, labels = make(n, n_classes)
    if path.suffix == ".npz":
        np.savez(path, logits=logits, labels=labels)
    elif path.suffix == ".jsonl":
        with open(path, "w") as file:
            for row, label in zip(logits, labels.tolist(), strict=True):
                file.write(json.dumps({"logits": [round(value, 5) for value in row.tolist()], "label": label}) + "\n")
    else:
        import pyarrow as pa
        from pyarrow import csv, parquet

        columns = {f"logit_{k}": logits[:, k] for k in range(n_classes)}
        table = pa.table({**columns, "label": labels})
        if path.suffix == ".parquet":
            parquet.write_table(table, path, row_group_size=100_000)
        else:
            csv.write_csv(table, path)


def write_part(path: Path) -> None:
    """Write overstated risks with labels, one score per row."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    z = 1.5 * rng.standard_normal(PART) - 1
    labels = (rng.random(PART) < 1 / (1 + np.exp(-z))).astype(np.int64)
    parquet.write_table(pa.table({"prob": 1 / (1 + np.exp(-1.5 * z - 0.5)), "label": labels}), path)


def time_parts(rows: list[float]) -> None:
    """Audit one file so many times over, as parts of one source, and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part.parquet")
        write_part(path)
        for n in rows:
            words = [sys.executable, "-c", PARTS_SCRIPT, str(path), str(max(1, round(n / PART)))]
            done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            each = [done[key] / done["n"] * 1e6 for key in ("cpu", "seconds")]
            print(f"{done['n']:,} rows: {each[0]:.2f} s of one core per million rows, {each[1]:.2f} s by the clock")
            print(f"  peak memory {done['bytes'] / 1e6:.0f} MB; {done['sentence']}", flush=True)


STREAM = """
import json, sys, time
import torch
torch.set_num_threads(1)
import surefoot as sf
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
making = 0.0
def batches(n, positions, words):
    global making
    source = torch.Generator().manual_seed(0)
    for _ in range(n):
        start = time.process_time()
        logits = torch.randn(1, positions, words, generator=source)
        labels = torch.randint(words, (1, positions), generator=source)
        logits[0, torch.arange(positions), labels[0]] += 14
        labels[0, 1::4] = 7  # another word than the likeliest
        labels[0, ::16] = -100  # as padding has it
        making += time.process_time() - start
        yield logits, labels
sf.audit(batches(1, 40, 100), logits=True)
before, making, start = peak(), 0.0, time.process_time()
report = sf.audit(batches(*map(int, sys.argv[1:])), logits=True)
seconds = time.process_time() - start - making
n = report.audit.n
print(json.dumps({"seconds": seconds, "n": n, "bytes": peak() - before, "sentence": report.sentence()}))
"""


def tokens(quick: bool) -> None:
    """Audit a stream of token logits that are made batch by batch, and print what it took without their making."""
    shape = (6 if quick else 64, 512, 50_257)
    words = [sys.executable, "-c", STREAM, *map(str, shape)]
    done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    whole = 4 * shape[0] * shape[1] * shape[2]
    each = 1e6 * done["seconds"] / done["n"]
    print(f"tokens, {shape}, {whole / 1e9:.1f} GB as float32, {done['n']:,} rows that count:")
    print(f"  {done['seconds']:.1f} s of one core, {each:,.0f} s per million rows")
    print(
        f"  memory {done['bytes'] / 1e6:.0f} MB, one batch has {whole / shape[0] / 1e6:.0f}; {done['sentence']}",
        flush=True,
    )


def files(quick: bool, formats: list[str]) -> None:
    """Write files, audit them and print what it took."""
    few = 10 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        sizes = ((10_000_000 // few, 10), (50_000 // few, 1000))
        for (n, n_classes), suffix in product(sizes, formats):
            small, large = Path(folder, f"small.{suffix}"), Path(folder, f"large.{suffix}")
            write(small, 100, n_classes)
            write(large, n, n_classes)
            words = [sys.executable, "-c", SCRIPT, str(small), str(large)]
            done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            size, more = large.stat().st_size, done["bytes"]
            print(f"{suffix}, {n:,} × {n_classes:,}: file {size / 1e6:.0f} MB, {done['seconds']:.1f} s")
            print(f"  memory {more / 1e6:.0f} MB, {more / size:.2f} × the file; {done['sentence']}", flush=True)
            large.unlink()


RAY_SCRIPT = """
import json, sys, time
import torch
torch.set_num_threads(1)
from surefoot.auditing import audit, open_engine
files, workers = sys.argv[2:], int(sys.argv[1])
def timed(inner):
    class Timed:
        seconds = 0.0
        def walk(self, source, step, on_rows=None):
            start = time.perf_counter()
            found = inner.walk(source, step, on_rows)
            self.seconds += time.perf_counter() - start
            return found
    for _ in range(2):  # workers have imported everything when they read the second time
        engine = Timed()
        (found,) = audit(files, engine=engine)
    # All rows are walked through twice: to add them up, and to score a temperature.
    return {"n": 2 * found.n, "seconds": engine.seconds, "sentence": found.sentence()}
if workers:
    with open_engine("ray", "local", workers) as engine:
        print(json.dumps(timed(engine)))
else:
    with open_engine() as engine:
        print(json.dumps(timed(engine)))
"""


def on_ray(quick: bool) -> None:
    """Read files in this process and by Ray workers on this machine, and print rows per second of the walks alone."""
    rows, env = 2 if quick else 8, {**os.environ, "RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "part-0.parquet")
        write_part(first)
        paths = [str(first)] * rows
        alone = 0.0
        print(f"{rows * PART:,} rows in {rows} parts on a machine with {os.cpu_count()} cores:")
        for workers in (0, 1, 2, 4):
            words = [sys.executable, "-c", RAY_SCRIPT, str(workers), *paths]
            done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout)
            rate = done["n"] / done["seconds"]
            alone = alone or rate
            who = f"{workers} {'worker' if workers == 1 else 'workers'}" if workers else "one process"
            each = f", {rate / workers:,.0f} per worker, {rate / alone:.2f} × one process" if workers else ""
            print(f"  {who}: {rate:,.0f} rows per second{each}; {done['sentence'][:60]}", flush=True)


PARTS = {
    "files": lambda options: files(options.quick, options.formats),
    "parquet": lambda options: time_parts(options.rows),
    "tokens": lambda options: tokens(options.quick),
}


def main() -> None:
    """Measure the parts that are wanted."""
    parser = argparse.ArgumentParser(description="Time and memory of surefoot audit on large files.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--formats", nargs="+", choices=["npz", "parquet", "csv", "jsonl"], default=["npz"])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["files"])
    parser.add_argument("--rows", nargs="+", type=float, default=[1e6, 1e7], help="how many, with --parts parquet")
    parser.add_argument("--engine", choices=["local", "ray"], default="local", help="ray: rows per second per worker")
    options = parser.parse_args()
    if options.engine == "ray":
        on_ray(options.quick)
        return
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
