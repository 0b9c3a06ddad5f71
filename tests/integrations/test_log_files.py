"""A table of a log that somebody has damaged is written anew where it cannot be read, and blocks nothing."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import surefoot as sf

SETTINGS = {"model": "mlp:width=8,depth=1", "epochs": 1, "batch_size": 30, "log": "csv"}
HEADER = b"step,epoch,tracker,key,value\n"


@pytest.mark.parametrize(
    "damage",
    [
        HEADER + b"9" * 5000 + b",0,quality,a,1\n",
        HEADER + b"1,0,quality," + b"x" * 200_000 + b",1\n",
        HEADER + b'"' + b"1,0,quality,a,1\n" * 20_000,
        b"\xff\xfe\0",
    ],
    ids=["digits", "long", "quote", "bytes"],
)
def test_a_damaged_table_is_written_anew(damage: bytes, small_npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    sf.train(out=out, data=f"npz:{small_npz}", **SETTINGS)
    whole = (out / "log" / "metrics.csv").read_bytes()
    for name in ("done.json", "checksums.json", "measures.jsonl"):
        (out / name).unlink()  # as if it had been killed before its end
    (out / "log" / "metrics.csv").write_bytes(damage)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.train(out=out, data=f"npz:{small_npz}", **SETTINGS)
    assert (out / "log" / "metrics.csv").read_bytes() == whole
