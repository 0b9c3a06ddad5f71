"""Build the embedded Fashion-MNIST subset from Debian's package ``dataset-fashion-mnist``.

Usage::

    apt-get install dataset-fashion-mnist
    python scripts/build_fashion.py [--check]

The subset is balanced: the first 400 training images of each class for training, the next 200 for calibration,
and the first 400 test images of each class for testing, each split in the original order. Nothing is drawn, and
NumPy dates zip entries alike, so the file is the same bytes every time; ``--check`` compares with the committed one.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SOURCE = Path("/usr/share/datasets/fashion-mnist")
TARGET = Path(__file__).parents[1] / "src" / "surefoot" / "data" / "fashion.npz"
PER_CLASS = {"train": 400, "calibration": 200, "test": 400}

Bytes = NDArray[np.uint8]


def read_idx(path: Path, header: int) -> Bytes:
    """Read a gzipped IDX file of unsigned bytes behind a header of the given length."""
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=header)


def take(labels: Bytes, skip: int, count: int) -> NDArray[np.intp]:
    """Return the positions of the images ``skip … skip + count`` of each class, in the original order."""
    chosen = [np.flatnonzero(labels == label)[skip : skip + count] for label in range(10)]
    return np.sort(np.concatenate(chosen))


def build() -> dict[str, Bytes]:
    """Select the subset from the full data set."""
    arrays: dict[str, Bytes] = {}
    for name, file, skip in (("train", "train", 0), ("calibration", "train", PER_CLASS["train"]), ("test", "t10k", 0)):
        images = read_idx(SOURCE / f"{file}-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
        labels = read_idx(SOURCE / f"{file}-labels-idx1-ubyte.gz", 8)
        rows = take(labels, skip, PER_CLASS[name])
        arrays[f"x_{name}"], arrays[f"y_{name}"] = images[rows], labels[rows]
    return arrays


def main() -> None:
    """Write the subset, or check the committed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    if not SOURCE.exists():
        parser.error(f"Expected {SOURCE}, but it is missing. Run apt-get install dataset-fashion-mnist.")
    arrays = build()
    if parser.parse_args().check:
        with np.load(TARGET) as committed:
            same = set(committed) == set(arrays) and all(np.array_equal(committed[k], arrays[k]) for k in arrays)
        raise SystemExit(0 if same else f"{TARGET.name} differs from what this script builds.")
    np.savez_compressed(TARGET, **arrays)  # type: ignore[arg-type]
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
