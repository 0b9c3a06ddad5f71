"""What the right answer of a command is, by NumPy and SciPy: accuracy, ECE, temperatures, quantiles, sets, mixtures.

A judge returns what differs, an empty text if nothing does, and ``-`` where it cannot tell.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _torture_reader import Rows, softmax
from safetensors import safe_open
from scipy.optimize import minimize_scalar

BINS = 15
UNKNOWN = "-"


def measured(rows: Rows) -> dict[str, float]:
    """Compute what everybody means by accuracy, mean confidence less accuracy, and ECE with equal bins."""
    probs, labels, weights = rows.probs, rows.labels, rows.weights
    if labels.ndim == 2:  # every label of a row by itself: its probability, and whether it is true
        confidence, correct = probs.ravel(), labels.ravel() == 1
        weights, near = np.repeat(weights, probs.shape[1]), 0.0
    elif probs.shape[1] == 1:
        confidence, correct, near = probs[:, 0], labels == 1, 0.0
    else:
        confidence, correct = probs.max(1), probs.argmax(1) == labels
        top = np.sort(probs, 1)
        near = float((top[:, -1] - top[:, -2] < 1e-6).sum())
    places = np.clip(np.ceil(confidence * BINS) - 1, 0, BINS - 1)
    gaps = [abs((weights * (confidence - correct))[places == b].sum()) for b in range(BINS)]
    edges = np.abs(confidence * BINS - np.round(confidence * BINS)) < 1e-4
    return {
        "n": float((rows.weights > 0).sum()),  # the others do not count
        "accuracy": float(np.average(correct, weights=weights)),
        "gap": float(np.average(confidence - correct, weights=weights)),
        "ece": float(sum(gaps) / weights.sum()),
        "ties": near * float(rows.weights.max() / rows.weights.mean()),
        "near": float(edges.sum()) * float(weights.max() / weights.mean()),
    }


def nll_of(rows: Rows) -> float:
    """Compute the mean of −log p(true class)."""
    return float(-np.log(np.maximum(rows.probs[np.arange(len(rows.labels)), rows.labels], 1e-300)).mean())


def _off(name: str, said: Any, right: float, slack: float = 0.0) -> list[str]:
    value = said["estimate"] if isinstance(said, dict) else said
    wrong = value is None or not abs(value - right) <= 2e-4 * max(1.0, abs(right)) + slack
    return [f"{name} {value} for {right:.6f}"] if wrong else []


def audit(said: dict[str, Any], rows: Rows | None) -> str:
    """Judge ``surefoot audit``; rows whose best class or whose bin is a matter of rounding may differ."""
    if rows is None:
        return UNKNOWN
    right, verdict = measured(rows), said["verdict"]
    n, ties = right["n"], right["ties"] / right["n"]
    found = [f"rows {said['n']} for {n:.0f}"] if said["n"] != n else []
    found += _off("accuracy", verdict["accuracy"], right["accuracy"], ties)
    found += _off("gap", verdict["gap"], right["gap"], ties)
    return "; ".join([*found, *_off("ece", verdict["ece"], right["ece"], 2 * (right["near"] / n + ties))])


def groups(said: dict[str, Any], content: bytes) -> str:
    """Judge the slices of an audit with ``--group site``: rows and accuracy of each value."""
    frame = pd.read_csv(io.BytesIO(content), index_col=False, dtype={"site": str}, keep_default_na=False)
    scores = frame.drop(columns=["label", "site", "age"])  # whatever a changed header calls them
    best = scores.to_numpy(np.float64).argmax(1) == frame["label"].astype(int)
    found = list[str]()
    for each in said["slices"]:
        rows = best[frame["site"] == each["value"]]
        if each["column"] == "site" and len(rows):
            found += [f"rows of {each['value']}"] if each["verdict"]["n"] != len(rows) else []
            found += _off(f"accuracy of {each['value']}", each["verdict"]["accuracy"], float(rows.mean()))
    return "; ".join(found)


def check(said: dict[str, Any], rows: Rows | None, limit: float) -> str:
    """Judge ``surefoot check --max-ece``: the ECE, and on which side of the limit it is."""
    if rows is None:
        return UNKNOWN
    (one,) = said["checks"]
    if one["metric"] == "risk_ece":  # of two classes: the risk of the second, in bins of equal counts
        return UNKNOWN
    right = measured(rows)
    found = _off("ece", one["value"], right["ece"], 2 * (right["near"] + right["ties"]) / right["n"])
    if said["broken"] and right["ece"] < limit - 1e-3:
        found.append(f"broken at an ECE of {right['ece']:.4f}, allowed {limit}")
    if one["status"] == "passed" and right["ece"] > limit + 1e-3:
        found.append(f"passed at an ECE of {right['ece']:.4f}, allowed {limit}")
    return "; ".join(found)


def temperature(fitted: Path, rows: Rows | None) -> str:
    """Judge ``surefoot calibrate --method temperature``: no other temperature has a lower NLL."""
    if rows is None or rows.labels.ndim == 2 or rows.probs.shape[1] == 1:
        return UNKNOWN
    held = json.loads(fitted.read_text())
    logits, spots = np.log(np.maximum(rows.probs, 1e-38)), np.arange(len(rows.labels))

    def nll(log_t: float) -> float:
        likely = np.log(np.maximum(softmax(logits / np.exp(log_t))[spots, rows.labels], 1e-300))
        return -float(np.average(likely, weights=rows.weights))

    wide = np.log([0.05, 20.0])
    best = min(nll(float(each)) for each in (*wide, minimize_scalar(nll, bounds=tuple(wide), method="bounded").x))
    here = nll(float(np.log(held["temperature"])))
    return f"NLL {here:.6f} at T {held['temperature']:.4f}, {best:.6f} elsewhere" if here > best + 1e-3 else ""


def quantile(fitted: Path, rows: Rows | None) -> str:
    """Judge ``surefoot conformal --method lac``: the threshold is the ⌈(n + 1) 0.9⌉-th smallest of −p(true class).

    Where rows have weights, that depends on the next one's, too.
    """
    if rows is None or (rows.weights != 1).any():
        return UNKNOWN
    scores = np.sort(-rows.probs[np.arange(len(rows.labels)), rows.labels])
    place, (said,) = int(np.ceil((len(scores) + 1) * 0.9 - 1e-9)), json.loads(fitted.read_text())["thresholds"]
    right = scores[place - 1] if place <= len(scores) else np.inf
    same = (said is None or said >= 0) if np.isinf(right) else said is not None and abs(said - right) < 1e-5
    return "" if same else f"threshold {said} for {right}"


def estimate(said: dict[str, Any], reference: Rows, n: int | None) -> str:
    """Judge ``surefoot estimate``: rows, what the reference has, and shares that are shares."""
    right, was = measured(reference), said["was"]
    found = [f"rows {said['n']} for {n}"] if n is not None and said["n"] != n else []
    found += _off("accuracy", was["accuracy"], right["accuracy"]) + _off("nll", was["nll"], nll_of(reference))
    shares = [each["new"]["estimate"] for each in said["shares"]]
    counted = np.bincount(reference.labels, minlength=len(shares)) / len(reference.labels)
    for each, share in zip(said["shares"], counted, strict=True):
        found += _off(f"share of {each['name']}", each["reference"], float(share))
    found += _off("sum of shares", sum(shares), 1.0)
    return "; ".join(found)


def repaired(place: Path, calibrator: str) -> str:
    """Judge ``surefoot calibrate --apply``: logits / T, or factor · logits + bias, as the file says."""
    with np.load(place / "good.npz") as before, np.load(place / "repaired.npz") as after:
        logits, found = before["logits"], after["logits"]
    if calibrator.endswith(".json"):
        logits = logits / float(json.loads((place / calibrator).read_text())["temperature"])
    else:
        with safe_open(place / calibrator, "np") as held:
            logits = held.get_tensor("factor") * logits + held.get_tensor("bias")
    wanted = logits - logits.max(1, keepdims=True)
    wanted -= np.log(np.exp(wanted).sum(1, keepdims=True))
    found = found - found.max(1, keepdims=True)
    found -= np.log(np.exp(found).sum(1, keepdims=True))
    return "" if np.allclose(wanted, found, atol=1e-3, rtol=1e-4) else "other logits than the calibrator makes"


def with_sets(place: Path) -> str:
    """Judge ``surefoot conformal --apply``: all classes whose probability reaches the threshold."""
    held = json.loads((place / "sets.json").read_text())
    if held["prediction_sets"] != "lac" or len(held["thresholds"]) != 1 or held["calibrator"]:
        return UNKNOWN
    with np.load(place / "good.npz") as before:
        probs = softmax(before["logits"])
    (threshold,) = held["thresholds"]
    reached = -np.inf if threshold is None else -float(threshold)
    names = held["class_names"] or [str(each) for each in range(probs.shape[1])]
    frame = pd.read_csv(place / "with-sets.csv")
    for row, (p, said) in enumerate(zip(probs, frame["set"], strict=True)):
        wanted = [names[each] for each in np.argsort(-p) if p[each] >= reached]
        if sorted(json.loads(said)) != sorted(wanted) and not (np.abs(p - reached) < 1e-6).any():
            return f"set {said} for {wanted} in row {row}"
    return ""


def baseline(said: dict[str, Any], place: Path) -> str:
    """Judge ``surefoot check --baseline``: what is now, what was by the file, and the change between them."""
    with np.load(place / "good.npz") as good:
        rows = Rows(softmax(good["logits"]), good["labels"], np.ones(len(good["labels"])))
    now = {**measured(rows), "nll": nll_of(rows)}
    held, found = json.loads((place / "baseline.json").read_text()), list[str]()
    for each in said["checks"]:
        name = each["metric"]
        was = float(held["measures"][name]["estimate"])
        found += _off(name, each["value"], now[name]) + _off(f"{name} before", each["was"], was)
        found += _off(f"change of {name}", each["change"], each["value"]["estimate"] - each["was"]["estimate"])
    return "; ".join(found)
