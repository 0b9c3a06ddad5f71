"""Build the embedded digits from scikit-learn's copy of the UCI test set.

Usage::

    pip install scikit-learn
    python scripts/build_digits.py [--check]

The 1,797 pictures of 8×8 shades 0…16 are kept in their order. NumPy dates zip entries alike, so the file is the same
bytes every time; ``--check`` compares with the committed one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TARGET = Path(__file__).parents[1] / "src" / "surefoot" / "data" / "digits.npz"


def build() -> dict[str, NDArray[np.uint8]]:
    """Take the pictures and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return {"x": found.images.astype(np.uint8), "y": found.target.astype(np.uint8)}


def main() -> None:
    """Write the file, or check the committed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed file instead of writing it")
    arrays = build()
    if parser.parse_args().check:
        with np.load(TARGET) as committed:
            same = set(committed) == set(arrays) and all(np.array_equal(committed[k], arrays[k]) for k in arrays)
        raise SystemExit(0 if same else f"{TARGET.name} differs from what this script builds.")
    np.savez_compressed(TARGET, **arrays)  # type: ignore[arg-type]
    print(f"{TARGET.name}: {TARGET.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
