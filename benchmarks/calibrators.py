"""All calibrators on rows that they were not fitted on: NLL, ECE, seconds; and how often the interval of a gain holds.

    python benchmarks/calibrators.py predictions.npz      # val_logits, val_labels, test_logits, test_labels
    python benchmarks/calibrators.py                      # the same on made rows of 10 classes
    python benchmarks/calibrators.py --rows 5000 --classes 100
    python benchmarks/calibrators.py --coverage 400       # simulations of each size

Seconds are those of one processor core, so that a busy machine does not count.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from surefoot.calibrators import compare_calibrators, fit
from surefoot.metrics import ece
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions

MORE = ("ets:by=mse", "matrix:ridge=0", "beta:joint=false", "platt:joint=false")


def made(n: int, n_classes: int, seed: int, *, sharpen: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Make over-confident predictions in which some classes are favoured."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, n_classes))
    z[np.arange(n), rng.integers(0, n_classes, n)] += 6
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    labels = np.minimum((p.cumsum(1) < rng.random((n, 1))).sum(1), n_classes - 1)
    return sharpen * z + 0.5 * np.random.default_rng(0).normal(size=n_classes), labels


def nll(probs: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean NLL."""
    return float(-np.log(probs[np.arange(len(labels)), labels]).mean())


def compare(calibration: Predictions, logits: np.ndarray, labels: np.ndarray) -> None:
    """Fit all on one set and score them on another, as a table from the smallest NLL up."""
    plain = torch.from_numpy(np.asarray(logits, np.float64)).softmax(1)
    truth = torch.from_numpy(np.asarray(labels, np.int64))
    rows = [("none", nll(plain.numpy(), labels), ece(plain, truth).item(), 0.0)]
    for name in [part.name for part in CALIBRATORS] + list(MORE):
        before = time.process_time()
        fitted = fit(name, calibration)
        seconds = time.process_time() - before
        probs = fitted.probs(logits)
        rows.append((name, nll(probs, labels), ece(torch.from_numpy(probs), truth).item(), seconds))
    print("| calibrator | NLL | ECE | seconds |\n|---|---|---|---|")
    for name, loss, error, seconds in sorted(rows, key=lambda row: row[1]):
        print(f"| `{name}` | {loss:.4f} | {100 * error:.2f} % | {seconds:.2f} |")


def coverage(repetitions: int) -> None:
    """Simulate how often the 95 % interval of a gain holds the gain on new rows of the calibrator of all rows."""
    new = made(20_000, 4, 10**6)
    print("| n | calibrator | holds the gain on new rows |\n|---|---|---|")
    for n in (200, 1000):
        for name in ("temperature", "vector"):
            held = 0
            for seed in range(repetitions):
                data = Predictions(*made(n, 4, seed), "calibration")
                found = next(each for each in compare_calibrators(data, [name]).candidates if each.name == name)
                plain = torch.from_numpy(new[0]).softmax(1).numpy()
                true = nll(fit(name, data).probs(new[0]), new[1]) - nll(plain, new[1])
                held += found.change_low <= true <= found.change_high
            print(f"| {n:,} | `{name}` | {100 * held / repetitions:.1f} % |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--coverage", type=int, default=0, metavar="REPETITIONS")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.coverage:
        coverage(given.coverage)
    elif given.file is None:
        compare(Predictions(*made(given.rows, given.classes, 0), "calibration"), *made(given.rows, given.classes, 1))
    else:
        with np.load(given.file) as file:
            calibration = Predictions(file["val_logits"], file["val_labels"], "calibration")
            compare(calibration, file["test_logits"], file["test_labels"])


if __name__ == "__main__":
    main()
