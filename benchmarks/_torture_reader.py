"""What a file of predictions says, read by NumPy, pandas and a few lines of its own: an independent judge."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BINS = 15


def judged(name: str, content: bytes) -> dict[str, float] | None:
    """Read a file and measure it.

    Args:
        name: Says the format.
        content: Of the file.

    Returns:
        Rows, accuracy, ECE and mean confidence; None where this reader cannot make sense of it.
    """
    try:
        scores, labels, are_logits = _read(name, content)
        scores, labels = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    except Exception:  # whatever it is: there is no answer
        return None
    n_by_k = scores.ndim == 2 and labels.shape == scores.shape[:1] and min(scores.shape) > 0 and scores.shape[1] > 1
    if not n_by_k or not np.isfinite(scores).all() or not np.isin(labels, np.arange(scores.shape[1])).all():
        return None
    if are_logits:
        scores = np.exp(scores - scores.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
    elif (np.abs(scores.sum(1) - 1) > 1e-3).any() or (scores < 0).any():
        return None
    else:
        scores = scores / scores.sum(1, keepdims=True)
    return measured(scores, labels.astype(int))


def measured(probs: Any, labels: Any) -> dict[str, float]:
    """Compute what everybody means by accuracy and ECE with equal bins."""
    confidence, correct = probs.max(1), probs.argmax(1) == labels
    places = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1)
    gaps = [abs((confidence - correct)[places == b].sum()) for b in range(BINS)]
    return {
        "n": float(len(labels)),
        "accuracy": float(correct.mean()),
        "gap": float(confidence.mean() - correct.mean()),
        "ece": float(sum(gaps) / len(labels)),
        "ties": float((np.sort(probs, 1)[:, -1] - np.sort(probs, 1)[:, -2] < 1e-6).sum()),
        "near": float((np.abs(confidence * BINS - np.round(confidence * BINS)) < 1e-4).sum()),
    }


def _read(name: str, content: bytes) -> tuple[Any, Any, bool]:
    ending = name.partition(".")[2]
    if ending == "npz":
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            key = "logits" if "logits" in arrays else "probs"
            others = [other for other in arrays if other not in (key, "labels", "class_names")]
            if others or arrays[key].dtype.kind not in "f":
                raise ValueError("which array is meant is a matter of taste")
            if "class_names" in arrays and arrays["class_names"].shape != arrays[key].shape[1:]:
                raise ValueError("names do not fit")
            return arrays[key], arrays["labels"], key == "logits"
    if ending == "columns.json" or name == "columns.json":
        found = json.loads(content)
        if set(found) != {"probs", "labels"}:
            raise ValueError("something else is in it")
        return found["probs"], found["labels"], False
    if name == "lists.jsonl":
        frame = pd.DataFrame([json.loads(line) for line in content.decode().splitlines() if line.strip()])
        if set(frame) != {"probs", "label"}:
            raise ValueError("something else is in it")
        return frame["probs"].tolist(), frame["label"], False
    frame = _frame(ending, content)
    columns = sorted(column for column in frame if column != "label")
    if columns != [f"p{i}" for i in range(len(columns))] or "label" not in frame:
        raise ValueError("columns are called otherwise")
    return frame[columns].to_numpy(np.float64), frame["label"], False


def _frame(ending: str, content: bytes) -> Any:
    if ending == "parquet":
        return pd.read_parquet(io.BytesIO(content))
    if ending == "feather":
        return pd.read_feather(io.BytesIO(content))
    if ending == "json":
        return pd.DataFrame(json.loads(content))
    if ending == "jsonl":
        return pd.DataFrame([json.loads(line) for line in content.decode().splitlines() if line.strip()])
    packed = "gzip" if ending.endswith("gz") else None
    mark = "\t" if Path(ending).suffix == ".tsv" or ending == "tsv" else ","
    frame = pd.read_csv(io.BytesIO(content), sep=mark, compression=packed, encoding="utf-8", index_col=False)
    return frame


def differs(said: dict[str, Any], right: dict[str, float]) -> str:
    """Compare an answer with the judge's; rows whose best class or whose bin is a matter of rounding may differ.

    Args:
        said: One audit of ``surefoot audit --json``.
        right: What :func:`judged` found.

    Returns:
        What differs; empty if nothing does.
    """
    verdict, n = said["verdict"], right["n"]
    near = {"accuracy": right["ties"] / n, "gap": right["ties"] / n, "ece": 2 * (right["near"] + right["ties"]) / n}
    found = [f"rows {said['n']} for {n:.0f}"] if said["n"] != n else []
    for key, slack in near.items():
        value = verdict[key]["estimate"]
        if value is None or abs(value - right[key]) > 2e-4 + slack:
            found.append(f"{key} {value} for {right[key]:.6f}")
    return "; ".join(found)
