"""What a file of predictions holds, read by NumPy, pandas and a few lines of its own: an independent reader.

Which columns are meant is taken from the answer (``took``), and what is in them is found here.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

IGNORED = -100
_ROLE = re.compile(
    r"'?([^',]+)'?(?:…'([^']+)')? as (logits|probs|scores|labels|weights|confidence|whether it was right)"
)
_RIGHT = {"1": 1.0, "1.0": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "0.0": 0.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True)
class Rows:
    """Predictions.

    Attributes:
        probs: Probabilities of shape ``(n, classes)``; of choices, rows end with zeros.
        labels: Class numbers, shape ``(n,)``; of several labels per row 1 and 0, shape ``(n, classes)``; of a
            confidence whether it was right, and ``probs`` has one column.
        weights: How much each row counts.
    """

    probs: Any
    labels: Any
    weights: Any


def read(name: str, content: bytes, took: str, labels: tuple[str, bytes] | None = None) -> Rows | None:
    """Read a file as an answer says that it was read.

    Args:
        name: Says the format.
        content: Of the file.
        took: Which columns were taken for what.
        labels: Name and content of the file that the labels are in, if it is another one.

    Returns:
        What it holds; None where this reader cannot make sense of it.
    """
    roles = {role: (first.strip(), last) for first, last, role in _ROLE.findall(took)}
    if "scores" in roles:
        roles["logits" if "(logits" in took else "probs"] = roles.pop("scores")
    for table in _tables(name, content):
        try:
            return _rows(table, roles, _of_labels(*labels) if labels else None)
        except Exception:  # whatever it is: this is not how the file is to be read
            continue
    return None


def _rows(table: Mapping[str, Any], roles: Mapping[str, tuple[str, str]], labels: Any) -> Rows:
    if "confidence" in roles:
        right = [_RIGHT[str(each).strip().lower()] for each in _pick(table, roles["whether it was right"])]
        sure = np.asarray([_share(each) for each in _pick(table, roles["confidence"])])
        return _checked(sure[:, None], np.asarray(right), _weights(table, roles, len(sure)))
    kind = "logits" if "logits" in roles else "probs"
    scores = _pick(table, roles[kind])
    labels = np.asarray(_pick(table, roles["labels"]) if labels is None else labels, np.float64)
    if len({np.ndim(each) and len(each) for each in scores}) > 1:  # choices of their own in every row
        longest = max(len(each) for each in scores)
        scores = [[*each, *[-np.inf if kind == "logits" else 0.0] * (longest - len(each))] for each in scores]
    scores = np.asarray(scores, np.float64)
    if scores.ndim == 3:  # tokens
        scores, labels = scores.reshape(-1, scores.shape[-1]), labels.reshape(-1)
        scores, labels = scores[labels != IGNORED], labels[labels != IGNORED]
    several = labels.ndim == 2
    if scores.ndim == 1 or (scores.shape[1] == 1 and not several):
        scores = scores.reshape(-1)
        if kind == "logits":
            scores = 1 / (1 + np.exp(-scores))
        scores = np.stack([1 - scores, scores], 1)
    elif kind == "logits":
        scores = 1 / (1 + np.exp(-scores)) if several else softmax(scores)
    elif not several:
        if (np.abs(scores.sum(1) - 1) > 1e-2).any() or (scores < -1e-6).any():
            raise ValueError("no probabilities")
        scores = scores / scores.sum(1, keepdims=True)
    return _checked(scores, labels, _weights(table, roles, len(scores)))


def _checked(probs: Any, labels: Any, weights: Any) -> Rows:
    allowed = np.arange(2 if labels.ndim == 2 or probs.shape[1] == 1 else probs.shape[1])
    if len(labels) != len(probs) or not np.isfinite(probs).all() or not np.isin(labels, allowed).all():
        raise ValueError("no predictions")
    return Rows(probs, labels.astype(int), weights)


def _weights(table: Mapping[str, Any], roles: Mapping[str, tuple[str, str]], n: int) -> Any:
    return np.asarray(_pick(table, roles["weights"]), np.float64) if "weights" in roles else np.ones(n)


def _pick(table: Mapping[str, Any], named: tuple[str, str]) -> Any:
    """Take a column, or those from the first to the last."""
    first, last = named
    if first in table and not last:
        return table[first]
    if not last:
        first, _, last = first.partition("…")
    names = list(table)
    chosen = names[names.index(first) : names.index(last) + 1]
    return np.stack([np.asarray(table[each], np.float64) for each in chosen], 1)


def _share(text: Any) -> float:
    text = str(text).strip()
    if text.endswith("%"):
        return float(text[:-1]) / 100
    above, slash, below = text.partition("/")
    return float(above) / float(below) if slash else float(text)


def softmax(logits: Any) -> Any:
    """Turn rows of logits into probabilities."""
    found = np.exp(logits - logits.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def _of_labels(name: str, content: bytes) -> Any:
    if name.endswith(".npy"):
        return np.load(io.BytesIO(content), allow_pickle=False)
    lines = [line.strip() for line in content.decode().splitlines() if line.strip()]
    return [float(line) for line in (lines if lines[0][:1].isdigit() else lines[1:])]


def _tables(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    """Read a file in every way that its ending allows, one after another."""
    for way in (_arrays, _arrow, _json, _text):
        try:
            yield from way(name, content)
        except Exception:  # it is none of these
            continue


def _arrays(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".npz"):
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            yield {each: arrays[each] for each in arrays if arrays[each].dtype.kind in "fiu"}
    if name.endswith(".npy"):
        yield {name: np.load(io.BytesIO(content), allow_pickle=False)}


def _arrow(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    if name.endswith((".parquet", ".feather", ".arrow")):
        frame = (pd.read_parquet if name.endswith(".parquet") else pd.read_feather)(io.BytesIO(content))
        yield {str(each): frame[each] for each in frame}


def _json(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".json"):
        found = json.loads(content)
        yield found if isinstance(found, dict) else _columns(found)
    elif name.endswith(".jsonl"):
        yield _columns([json.loads(line) for line in content.decode("utf-8-sig").splitlines() if line.strip()])


def _columns(found: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {key: [row[key] for row in found] for key in found[0]}


def _text(name: str, content: bytes) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        for mark in ",\t;| ":
            for header in (0, None):
                frame = pd.read_csv(io.StringIO(text), sep=mark, header=header, index_col=False)
                yield {str(each): frame[each].tolist() for each in frame}
