"""The page beside a training: it is started once, says where it is, and ends with the block."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from surefoot.cli.watch import PORT, watched
from tests.patience import PATIENCE


def is_open(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_of_torchruns_processes_the_first_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with watched(tmp_path, True):
        assert capsys.readouterr().err == ""
    monkeypatch.setenv("RANK", "0")
    with watched(tmp_path, True):
        url = capsys.readouterr().err.removeprefix("Watch: ").strip()
        assert is_open(url)
    assert not is_open(url)


def test_a_port_that_is_taken_is_left_for_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", PORT))
            taken.listen()
        except OSError:
            pass  # somebody else has it, which does as well
        with watched(tmp_path, True):
            url = capsys.readouterr().err.removeprefix("Watch: ").strip()
            assert not url.endswith(f":{PORT}/")
            assert is_open(url)


def test_a_page_that_cannot_be_started_is_told_and_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    trained = False
    with watched(tmp_path, True):
        trained = True
    assert trained
    told = capsys.readouterr().err
    assert told.startswith("No live page: it has ended at once. The training goes on; surefoot watch ")
