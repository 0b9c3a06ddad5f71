"""Predictions through a real pipe: the format is told by the first bytes, and nothing is left behind."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surefoot
from surefoot.cli.stdin import _format
from surefoot.errors import InputError
from tests.auditing.made import made, softmax
from tests.conftest import RunCommand

LOGITS, LABELS = made(60)
PROBS = softmax(LOGITS)
TABLE = pd.DataFrame({"label": LABELS, **{f"prob_{k}": PROBS[:, k] for k in range(3)}})


def npz() -> bytes:
    held = io.BytesIO()
    np.savez(held, probs=PROBS, labels=LABELS)
    return held.getvalue()


def npy() -> bytes:
    held = io.BytesIO()
    np.save(held, PROBS)
    return held.getvalue()


def parquet() -> bytes:
    held = io.BytesIO()
    TABLE.to_parquet(held)
    return held.getvalue()


SOURCE = str(Path(surefoot.__file__).parents[1])  # that of the tests, wherever the process runs
CSV = TABLE.to_csv(index=False).encode()
LINES = TABLE.to_json(orient="records", lines=True).encode()
COLUMNS = json.dumps({"probs": PROBS.tolist(), "labels": LABELS.tolist()}).encode()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (CSV, "csv"),
        (b"\xef\xbb\xbf" + CSV, "csv"),
        (LINES, "jsonl"),
        (LINES.partition(b"\n")[0], "jsonl"),
        (COLUMNS, "json"),
        (json.dumps({"probs": [[0.5, 0.5]], "labels": [0]}, indent=2).encode(), "json"),
        (b"[" + LINES.replace(b"\n", b","), "json"),
        (npz(), "npz"),
        (npy(), "npy"),
        (parquet(), "parquet"),
        (b"0.2,0.8\n0.5,0.5\n", "csv"),
    ],
)
def test_the_first_bytes_tell(data: bytes, found: str) -> None:
    assert _format(data) == found


def test_bytes_that_tell_nothing() -> None:
    with pytest.raises(InputError, match=r"its first bytes are of none of these\. Say --format"):
        _format(b"\x80\x04\x95")


def piped(data: bytes, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with its own place for temporary files."""
    (folder / "tmp").mkdir(exist_ok=True)
    started = subprocess.Popen(
        [sys.executable, "-m", "surefoot", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1", "PYTHONPATH": SOURCE},
    )
    out, err = started.communicate(data)
    assert list((folder / "tmp").iterdir()) == []
    return subprocess.CompletedProcess(words, started.returncode, out.decode(), err.decode())


def test_an_audit_of_a_pipe(tmp_path: Path) -> None:
    done = piped(gzip.compress(CSV), tmp_path, "audit", "-")
    assert done.returncode == 0, done.stderr
    assert "Read: stdin.csv.gz, 60 × 3: 'prob_0…prob_2' as probs, 'label' as labels" in done.stdout
    assert "Page: stdin-audit.html" in done.stdout
    assert (tmp_path / "stdin-audit.html").is_file()


def test_a_calibrator_from_a_pipe_beside_a_file(tmp_path: Path) -> None:
    done = piped(npz(), tmp_path, "calibrate", "-", "--method", "temperature", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n"] == 60
    new = TABLE.assign(label=None).drop(columns="label").to_csv(index=False).encode()
    done = piped(new, tmp_path, "calibrate", "-", "--apply", "calibrator.json")
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "stdin-repaired.csv")) == 60


def test_nothing_came(tmp_path: Path) -> None:
    done = piped(b"", tmp_path, "audit", "-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: Expected predictions through a pipe, but nothing came. Check the command before it.\n"
    )


def test_what_makes_no_sense(run_command: RunCommand, tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    says = "Expected --format to have standard input (-) beside it, but got 'csv'. Leave it out for files."
    assert says in run_command("audit", "a.csv", "--format", "csv").stderr
    assert "Expected - once, for there is one standard input" in run_command("audit", "-", "-").stderr
    assert "Expected --format to have one of csv, tsv" in run_command("audit", "-", "--format", "xls").stderr
