"""The other inputs of the audit for ``torture.py``: good files of every kind, and how each is called.

One score for two classes, several labels per row, a confidence and whether it was right, tokens, choices of their own
in every row, samples of lm-evaluation-harness, weights, groups, labels in a file of their own, files without header,
folders, patterns and pipes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _torture_made import FORMATS, Draws, rows
from _torture_reader import Rows, read

Files = dict[str, bytes]
AUDIT = "audit FILE --json --no-page"
IN_PIPES = ("a.npz", "a.csv", "a.csv.gz", "columns.json", "rows.json", "a.jsonl", "a.parquet", "a.feather")


@dataclass(frozen=True)
class Kind:
    """One kind of input.

    Attributes:
        files: Makes good ones; the first may be changed, and so may any other.
        words: Of the command line, for the first file.
    """

    files: Callable[[Draws], Files]
    words: str = AUDIT

    def typed(self, name: str) -> str:
        """Return the command line for a file."""
        return self.words.replace("FILE", name)


def _csv(columns: dict[str, Any]) -> bytes:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return ("\n".join(lines) + "\n").encode()


def _jsonl(found: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _risks(draws: Draws) -> tuple[Any, Any]:
    z = 2 * draws.normal(size=60)
    return (1 / (1 + np.exp(-1.5 * z))).round(6), (draws.random(60) < 1 / (1 + np.exp(-z))).astype(int)


def _binary(draws: Draws) -> Files:
    p, y = _risks(draws)
    kind = int(draws.integers(4))
    if kind == 0:
        return {"risks.csv": _csv({"label": y, "prob": p})}
    if kind == 1:
        return {"risks.npz": _npz(probs=p, labels=y)}
    if kind == 2:
        return {"risks.jsonl": _jsonl([{"score": float(a), "label": int(b)} for a, b in zip(p, y, strict=True)])}
    return {"risks.csv": _csv({"p1": p, "y_true": y})}


def _many(draws: Draws) -> Files:
    p = draws.random((50, 3)).round(6)
    y = (draws.random((50, 3)) < p).astype(int)
    kind = int(draws.integers(3))
    if kind == 0:
        names = ("cat", "dog", "owl")
        told = {f"prob_{name}": p[:, i] for i, name in enumerate(names)}
        return {"many.csv": _csv({**told, **{f"label_{name}": y[:, i] for i, name in enumerate(names)}})}
    if kind == 1:
        return {"many.npz": _npz(logits=np.log(p + 1e-9) - np.log1p(1e-9 - p), labels=y)}
    return {"many.jsonl": _jsonl([{"probs": a.tolist(), "labels": b.tolist()} for a, b in zip(p, y, strict=True)])}


def _sure(draws: Draws) -> Files:
    p = draws.integers(1, 100, 60) / 100
    right = draws.random(60) < p
    if draws.random() < 0.5:
        return {"sure.csv": _csv({"confidence": p, "correct": right.astype(int)})}
    ways = [lambda v: f"{round(100 * v)}%", lambda v: f"{v}", lambda v: f"{round(100 * v)}/100"]
    told = [{"confidence": ways[int(draws.integers(3))](v), "correct": bool(r)} for v, r in zip(p, right, strict=True)]
    return {"sure.jsonl": _jsonl(told)}


def _tokens(draws: Draws) -> Files:
    logits = draws.normal(size=(4, 12, 5)).round(4)
    labels = (logits + draws.gumbel(size=logits.shape)).argmax(-1)
    labels[0, : int(draws.integers(1, 6))] = -100
    return {"tokens.npz": _npz(logits=logits, labels=labels)}


def _choices(draws: Draws) -> Files:
    told = []
    for _ in range(50):
        z = 2 * draws.normal(size=int(draws.integers(2, 5)))
        told.append({"logits": z.round(5).tolist(), "label": int((z + draws.gumbel(size=len(z))).argmax())})
    if draws.random() < 0.5:
        return {"choices.jsonl": _jsonl(told)}
    return {"choices.json": json.dumps({key: [row[key] for row in told] for key in ("logits", "label")}).encode()}


def _samples(draws: Draws) -> Files:
    told = []
    for number in range(40):
        z = (3 * draws.normal(size=int(draws.integers(2, 5))) - 6).round(4)
        pairs = [[str(v), str(v == z.max())] for v in z]
        asked = {f"gen_args_{i}": {"arg_0": f"Note {number}?", "arg_1": f" answer {i}"} for i in range(len(z))}
        target = int((z + draws.gumbel(size=len(z))).argmax())
        told.append({
            "doc_id": number,
            "doc": {"question": f"Note {number}?", "choices": [f"answer {i}" for i in range(len(z))]},
            "target": str(target),
            "arguments": asked,
            "resps": [[pair] for pair in pairs],
            "filtered_resps": pairs,
            "filter": "none",
            "metrics": ["acc"],
            "acc": float(target == z.argmax()),
        })
    order = draws.permutation(len(told))
    return {"samples_notes.jsonl": _jsonl([told[i] for i in order])}


def _table(draws: Draws, n: int = 60) -> dict[str, Any]:
    probs, labels = rows(draws, n)
    return {"label": labels, **{f"p{i}": probs[:, i] for i in range(3)}}


def _weighted(draws: Draws) -> Files:
    told = {**_table(draws), "weight": draws.choice([0.5, 1, 2, 3], 60)}
    if draws.random() < 0.6:
        return {"weighted.csv": _csv(told)}
    probs = np.stack([told[f"p{i}"] for i in range(3)], 1)
    return {"weighted.npz": _npz(probs=probs, labels=told["label"], weights=told["weight"])}


def _groups(draws: Draws) -> Files:
    more = {"site": draws.choice(["north", "south"], 60), "age": draws.integers(18, 90, 60)}
    return {"groups.csv": _csv({**_table(draws), **more})}


def _bare(draws: Draws) -> Files:
    probs, labels = rows(draws, 60)
    lines = [",".join(f"{v:.6f}" for v in row) for row in probs]
    return {"scores.csv": "\n".join(lines).encode(), "labels.csv": "\n".join(map(str, labels)).encode()}


def _bare_npy(draws: Draws) -> Files:
    probs, labels = rows(draws, 60)
    return {"scores.npy": _npy(probs), "y.npy": _npy(labels)}


def _parts(draws: Draws) -> Files:
    ending = ["csv", "jsonl", "npz", "parquet"][int(draws.integers(4))]
    return {f"parts/part-{i}.{ending}": FORMATS[f"a.{ending}"](*rows(draws, 20)) for i in range(3)}


def _piped(draws: Draws) -> Files:
    name = IN_PIPES[int(draws.integers(len(IN_PIPES)))]
    return {f"-{name}": FORMATS[name](*rows(draws))}


KINDS = {
    "one score": Kind(_binary),
    "several labels": Kind(_many),
    "confidence": Kind(_sure),
    "tokens": Kind(_tokens),
    "choices": Kind(_choices),
    "samples": Kind(_samples),
    "weights": Kind(_weighted),
    "groups": Kind(_groups, "audit FILE --group site --group age:3 --json --no-page"),
    "labels apart": Kind(_bare, "audit scores.csv --labels labels.csv --json --no-page"),
    "arrays, labels apart": Kind(_bare_npy, "audit scores.npy --labels y.npy --json --no-page"),
    "folder": Kind(_parts, "audit parts --json --no-page"),
    "pattern": Kind(_parts, "audit 'parts/part-*' --json --no-page"),
    "pipe": Kind(_piped, "audit - --json --no-page"),
}


def understood(kind: str, name: str, files: Files, took: str) -> Rows | None:
    """Read the files of a case as an answer says that they were read.

    Args:
        kind: One of :data:`KINDS`.
        name: The first file.
        files: All of them, as they were met.
        took: What the answer says was taken for what.

    Returns:
        The predictions; None where this reader cannot make sense of them.
    """
    if kind == "samples":
        return _questions(files[name])
    if kind in ("labels apart", "arrays, labels apart"):
        first, second = sorted(files, key=lambda each: not each.startswith("scores"))
        return read(first, files[first], took, (second, files[second]))
    if kind in ("folder", "pattern"):
        parts = [read(each, files[each], took) for each in sorted(files)]
        if any(part is None for part in parts):
            return None
        known = [part for part in parts if part is not None]
        return Rows(*(np.concatenate([getattr(part, key) for part in known]) for key in ("probs", "labels", "weights")))
    return read(name.removeprefix("-"), files[name], took)


def _questions(content: bytes) -> Rows | None:
    try:
        every = [json.loads(line) for line in content.decode().splitlines() if line.strip()]
        found = [row for row in every if row.get("filter") == every[0].get("filter")]  # those of others are left out
        scores = [[float(pair[0]) for pair in row["filtered_resps"]] for row in found]
        labels = np.asarray([int(row["target"]) for row in found])
    except Exception:  # whatever it is: there is no answer
        return None
    probs = np.zeros((len(found), max(map(len, scores))))
    for row, z in zip(probs, scores, strict=True):
        row[: len(z)] = np.exp(np.subtract(z, max(z))) / np.exp(np.subtract(z, max(z))).sum()
    fits = np.isfinite(probs).all() and all(0 <= y < len(z) for y, z in zip(labels, scores, strict=True))
    return Rows(probs, labels, np.ones(len(labels))) if fits else None
