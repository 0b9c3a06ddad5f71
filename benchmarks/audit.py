"""Time and memory of ``surefoot audit`` on large files, each in a process of its own.

    python benchmarks/audit.py                             # 10 million × 10 and 50,000 × 1,000, float32, two minutes
    python benchmarks/audit.py --quick                     # a tenth of the rows
    python benchmarks/audit.py --quick --formats npz parquet csv jsonl   # needs surefoot[files]
    python benchmarks/audit.py --parts tokens              # a (64, 512, 50257) stream of logits, never held as a whole

Memory is the peak resident size (VmHWM, so this runs on Linux) beyond that of the same process after the audit of a
small file of the same format, so imports do not count. Written files go to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
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
        start = time.perf_counter()
        logits = torch.randn(1, positions, words, generator=source)
        labels = torch.randint(words, (1, positions), generator=source)
        logits[0, torch.arange(positions), labels[0]] += 9
        labels[0, ::16] = -100  # as padding has it
        making += time.perf_counter() - start
        yield logits, labels
sf.audit(batches(1, 40, 100), logits=True)
before, making, start = peak(), 0.0, time.perf_counter()
report = sf.audit(batches(*map(int, sys.argv[1:])), logits=True)
seconds = time.perf_counter() - start - making
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
    print(f"tokens, {shape}, {whole / 1e9:.1f} GB as float32: {done['seconds']:.0f} s, {each:,.0f} s per million rows")
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


PARTS = {
    "files": lambda options: files(options.quick, options.formats),
    "tokens": lambda options: tokens(options.quick),
}


def main() -> None:
    """Measure the parts that are wanted."""
    parser = argparse.ArgumentParser(description="Time and memory of surefoot audit on large files.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--formats", nargs="+", choices=["npz", "parquet", "csv", "jsonl"], default=["npz"])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["files"])
    options = parser.parse_args()
    for part in options.parts:
        PARTS[part](options)


if __name__ == "__main__":
    main()
