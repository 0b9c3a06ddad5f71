"""Every known cause of trouble has one line of its own, with what to do and the right exit code."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from surefoot.cli import main
from surefoot.cli.console import LEAST_WIDTH, terminal

_MAIN = "from surefoot.cli import main; main()"
DRAWS = np.random.default_rng(0)
LOGITS, LABELS = DRAWS.normal(size=(60, 3)), DRAWS.integers(0, 3, 60)


def stored(header: str) -> bytes:
    """Make an archive whose array has this header."""
    text = header.encode("latin-1") + b"\n"
    labels, archive = io.BytesIO(), io.BytesIO()
    np.save(labels, LABELS)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("logits.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + b"\0" * 480)
        file.writestr("labels.npy", labels.getvalue())
    return archive.getvalue()


def shaped(shape: str, order: bool = False) -> bytes:
    return stored(f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}, }}")


def archived() -> bytes:
    file = io.BytesIO()
    np.savez(file, logits=LOGITS, labels=LABELS)
    return file.getvalue()


def encrypted() -> bytes:
    content = bytearray(archived())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + place] |= 1
            at = content.find(mark, at + 4)
    return bytes(content)


ROWS = json.dumps([{"p0": 0.5, "p1": 0.5, "label": 0}] * 20)
FILES = {
    "cut.npz": stored("{'descr': '<f8', 'fortran_order': False, 'shape': (60, 3)"),
    "deep.npz": stored("(" * 3000),
    "negative.npz": shaped("(-5, 3)"),
    "huge.npz": shaped("(1000000000000, 3)"),
    "huge-by-column.npz": shaped("(1000000000000, 3)", order=True),
    "wide.npz": shaped("(60, 10000000000000000000000)"),
    "encrypted.npz": encrypted(),
    "deep.json": b"[" * 200_000,
    "deep-column.json": b'{"logits": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep.jsonl": b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
    "big.json": ROWS[:-1].encode() + b', {"p0": 1' + b"0" * 400 + b', "p1": 0.5, "label": 1}]',
}


def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["surefoot", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    found = capsys.readouterr()
    return int(ended.value.code or 0), found.out, found.err


def assert_one_line(code: int, err: str, wanted: int) -> None:
    assert (code, err.count("\n")) == (wanted, 1), err
    assert err.startswith("Error: Expected ")
    assert "unexpected" not in err


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_none(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(FILES[name])
    code, _, err = say(capsys, monkeypatch, "audit", name)
    assert_one_line(code, err, 2)


@pytest.mark.parametrize(
    "words",
    [
        "audit ok.npz --bins 1000000",
        "train --out r --data digits --epochs 1 --threads 0",
        "train --out r --data digits --epochs 1 --threads 100000",
        "train --out r --data digits --epochs 1 --device meta",
        "compare --out r --data digits --epochs 1 --seeds 99999999999",
        "calibrate ok.npz --apply deep.json",
        "conformal ok.npz --apply deep.json",
        "audit ok.npz --out /dev/full",
    ],
)
def test_options_that_nothing_can_do(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.npz").write_bytes(archived())
    (tmp_path / "deep.json").write_bytes(b'{"calibrator": ' + b"[" * 200_000)
    code, _, err = say(capsys, monkeypatch, *words.split())
    assert_one_line(code, err, 2)


@pytest.mark.parametrize("error", [28, 30, 122, 5])
def test_a_page_that_cannot_be_written_takes_no_verdict_along(
    tmp_path: Path, error: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.npz").write_bytes(archived())
    monkeypatch.setattr(os, "fsync", fail)
    code, out, err = say(capsys, monkeypatch, "audit", "ok.npz")
    assert_one_line(code, err, 1)
    assert os.strerror(error) in err
    assert "Read: ok.npz" in out
    assert [path.name for path in tmp_path.iterdir()] == ["ok.npz"]


def test_names_that_are_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ok.npz").write_bytes(archived())
    code, _, err = say(capsys, monkeypatch, "audit", "ok.npz", "--out", "x" * 300 + ".html")
    assert_one_line(code, err, 1)
    assert "Choose a shorter name" in err


def test_a_narrow_terminal_loses_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert terminal().width == LEAST_WIDTH
    monkeypatch.setenv("COLUMNS", "90")
    assert terminal().width == 90


def test_a_closed_pipe_and_an_encoding_with_few_characters(tmp_path: Path) -> None:
    (tmp_path / "ok.npz").write_bytes(archived())
    start = [sys.executable, "-P", "-c", _MAIN, "audit", "ok.npz"]
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    found = subprocess.run(start, cwd=tmp_path, env=latin, capture_output=True, timeout=300, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"\\u2013" in found.stdout
    page = tmp_path / "ok-audit.html"
    page.unlink()
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(start, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writer)
    assert (found.returncode, found.stderr) == (0, b"")
    assert page.is_file()  # the reader has seen enough; the page is there all the same
