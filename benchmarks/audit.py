"""Time and memory of ``surefoot audit`` on large files, each in a process of its own.

    python benchmarks/audit.py                             # 10 million × 10 and 50,000 × 1,000, float32, two minutes
    python benchmarks/audit.py --quick                     # a tenth of the rows
    python benchmarks/audit.py --quick --formats npz parquet csv jsonl   # needs surefoot[files]

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


def main() -> None:
    """Write the files, audit them and print what it took."""
    parser = argparse.ArgumentParser(description="Time and memory of surefoot audit on large files.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--formats", nargs="+", choices=["npz", "parquet", "csv", "jsonl"], default=["npz"])
    options = parser.parse_args()
    few = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        sizes = ((10_000_000 // few, 10), (50_000 // few, 1000))
        for (n, n_classes), suffix in product(sizes, options.formats):
            small, large = Path(folder, f"small.{suffix}"), Path(folder, f"large.{suffix}")
            write(small, 100, n_classes)
            write(large, n, n_classes)
            words = [sys.executable, "-c", SCRIPT, str(small), str(large)]
            done = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
            size, more = large.stat().st_size, done["bytes"]
            print(f"{suffix}, {n:,} × {n_classes:,}: file {size / 1e6:.0f} MB, {done['seconds']:.1f} s")
            print(f"  memory {more / 1e6:.0f} MB, {more / size:.2f} × the file; {done['sentence']}", flush=True)
            large.unlink()


if __name__ == "__main__":
    main()
