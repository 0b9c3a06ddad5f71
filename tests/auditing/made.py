"""Predictions with a known fault, and files that hold them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

NAMES = ("shirt", "coat", "bag")


def made(n: int = 4000, classes: int = 3, *, temperature: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels: labels are drawn from the softmax of the logits, which are then divided by a temperature.

    So a temperature of 1 is calibrated, 0.5 over-confident and repaired by 2.
    """
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((n, classes))
    labels = (logits + rng.gumbel(size=(n, classes))).argmax(1)
    return (logits / temperature).astype(np.float32), labels


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities in float64."""
    e = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def write(path: Path, logits: np.ndarray, labels: np.ndarray, *, sites: list[str] | None = None) -> Path:
    """Write predictions in the format that the file's name asks for, with class names and perhaps a group column."""
    probs = softmax(logits)
    names = [NAMES[label] for label in labels]
    if path.suffix == ".npz":
        np.savez(path, logits=logits, labels=labels, class_names=np.array(NAMES), **({"site": sites} if sites else {}))
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="") as file:
            mark = "," if path.suffix == ".csv" else "\t"
            out = csv.writer(file, delimiter=mark, quoting=csv.QUOTE_NONNUMERIC)  # quotes the header too
            out.writerow(["label", *(f"prob_{name}" for name in NAMES), *(["site"] if sites else [])])
            for i, row in enumerate(probs.tolist()):
                out.writerow([names[i], *row, *([sites[i]] if sites else [])])
    elif path.suffix == ".jsonl":
        rows = ({"label": n, "probs": p} for n, p in zip(labels.tolist(), probs.tolist(), strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps({"probs": probs.tolist(), "labels": names, "classes": NAMES, "about": "a test"}))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        columns = {f"logit_{name}": logits[:, k] for k, name in enumerate(NAMES)}
        parquet.write_table(pyarrow.table({**columns, "target": names, **({"site": sites} if sites else {})}), path)
    return path
