"""A baseline: what later predictions are held against, in one small file of JSON."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surefoot import __version__
from surefoot.atomic import write_text
from surefoot.auditing._counted import ValueSums
from surefoot.auditing._summary import Rows, Summary
from surefoot.auditing.result import plain
from surefoot.errors import InputError
from surefoot.metrics.interval import Interval
from surefoot.places import place, written
from surefoot.sources.labels import Array

_EDITION = 1


@dataclass(frozen=True)
class Baseline:
    """Predictions that others must not be worse than.

    Attributes:
        file: What was read, for people.
        n_bins: Bins of confidence.
        summary: Sums, and a sample of rows to pair with.
    """

    file: str
    n_bins: int
    summary: Summary

    def save(self, path: Path | str, measures: dict[str, Interval]) -> None:
        """Write the file: sums over all rows, the rows for pairing (at most 20,000), and measures for people to read.

        Args:
            path: A ``.json`` file.
            measures: Not read back.
        """
        whole, rows = self.summary, self.summary.rows
        values = {
            "surefoot_baseline": _EDITION,
            "version": __version__,
            "file": self.file,
            "n": whole.n,
            "n_classes": whole.n_classes,
            "n_bins": self.n_bins,
            "positive": whole.positive,
            "labels_digest": whole.labels_digest,
            "measures": plain({key: dataclasses.asdict(each) for key, each in measures.items()}),
            "bins": whole.bins.tolist(),
            "totals": None if whole.totals is None else whole.totals.tolist(),
            "risk_bins": None if whole.risk_bins is None else whole.risk_bins.tolist(),
            "values": plain({key: [_plain(each) for each in pair] for key, pair in whole.values.items()}),
            "rows": {
                "n": len(rows.correct),
                "correct": _pack(np.packbits(rows.correct)),
                "confidence": _pack(rows.confidence),
                "losses": {key: _pack(each) for key, each in rows.losses.items()},
            },
        }
        values["checksum"] = _checksum(values)
        with written(path) as here:
            write_text(here, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def load_baseline(path: Path | str) -> Baseline:
    """Read a baseline back.

    Args:
        path: What ``surefoot check --save-baseline`` wrote.

    Returns:
        The baseline.

    Raises:
        InputError: If the file is missing or something else.
    """
    path = place(path)
    if not path.is_file():
        raise InputError(
            f"Expected a baseline, but {path} does not exist. Make it with surefoot check PREDICTIONS "
            f"--save-baseline {path.name}."
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        edition = values["surefoot_baseline"]
        if edition == _EDITION:
            if values["checksum"] != _checksum(values):
                raise InputError(
                    f"Expected a baseline as it was saved, but {path.name} was changed since. Make it again with "
                    f"surefoot check PREDICTIONS --save-baseline {path.name}."
                )
            return _read(values)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise InputError(
            f"Expected a baseline that surefoot check --save-baseline wrote, but {path.name} is something else or "
            "incomplete. Make it again."
        ) from error
    raise InputError(
        f"Expected a baseline of edition {_EDITION}, but {path.name} has {edition}. Make it again with this version."
    )


def _read(values: dict[str, Any]) -> Baseline:
    n, rows = int(values["rows"]["n"]), values["rows"]
    found = Rows(
        confidence=_unpack(rows["confidence"], np.float16, n),
        correct=np.unpackbits(_unpack(rows["correct"], np.uint8, (n + 7) // 8), count=n).astype(bool),
        losses={str(key): _unpack(text, np.float16, n) for key, text in rows["losses"].items()},
    )
    summary = Summary(
        n=int(values["n"]),
        n_classes=int(values["n_classes"]),
        labels_digest=str(values["labels_digest"]),
        bins=_sums(values["bins"]),
        values={str(key): (_values(one), _values(other)) for key, (one, other) in values["values"].items()},
        positive=values["positive"],
        totals=None if values["totals"] is None else _sums(values["totals"]),
        risk_bins=None if values["risk_bins"] is None else _sums(values["risk_bins"]),
        rows=found,
    )
    return Baseline(str(values["file"]), int(values["n_bins"]), summary)


def _checksum(values: dict[str, Any]) -> str:
    """Hash all values but the hash, however they are laid out in the file."""
    rest = {key: value for key, value in values.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _plain(sums: ValueSums) -> dict[str, float]:
    return {"n": sums.n, "total": sums.total, "squares": sums.squares}


def _values(values: dict[str, float | None]) -> ValueSums:
    """Read sums; JSON has no word for those that are infinite."""
    total, squares = (math.inf if values[name] is None else values[name] for name in ("total", "squares"))
    return ValueSums(int(values["n"] or 0), float(total or 0.0), float(squares or 0.0))


def _sums(values: Any) -> torch.Tensor:
    sums = torch.tensor(values, dtype=torch.float64)
    if sums.ndim != 2 or len(sums) != 3:
        raise ValueError(f"bins are {tuple(sums.shape)}")
    return sums


def _pack(values: Array) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()


def _unpack(text: str, dtype: Any, n: int) -> Array:
    room = n * np.dtype(dtype).itemsize
    data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), room + 1)
    if len(data) != room:
        raise ValueError(f"{len(data)} bytes for {n} values")
    return np.frombuffer(data, dtype).copy()
