"""Requests and folders that mean harm: the server answers the next one all the same."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest

from surefoot.serve import WatchServer
from surefoot.serve import tail as tails
from surefoot.serve.runs import LONGEST, find, read_header
from surefoot.serve.stream import events
from surefoot.serve.tail import Tail
from tests.patience import PATIENCE
from tests.runs import fake_run

HOST = b"Host: localhost\r\n"
REQUESTS = [
    b"GET //[ HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200 + b"\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x00\xff\x16\x03\x01\r\n\r\n",
    b"GET /events?run=" + b"%00" * 1000 + b" HTTP/1.0\r\nHost: evil.example\r\n\r\n",
    b"GET http://evil.example/watch.js HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Origin: null\r\n\r\n",
    b"",
]


def ask(server: WatchServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE) as link:
        link.sendall(request)
        link.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while piece := link.recv(1 << 16):
                found += piece
        except ConnectionResetError:  # it did not want to hear the rest
            pass
    return found


def test_no_request_ends_the_server(tmp_path: Path) -> None:
    fake_run(tmp_path)
    draws = np.random.default_rng(0)
    good = b"GET /watch.js HTTP/1.0\r\n" + HOST + b"\r\n"
    with WatchServer([tmp_path], port=0) as server:
        for request in REQUESTS:
            answer = ask(server, request)
            assert not answer.startswith((b"HTTP/1.0 200", b"HTTP/1.1 200"))
        for _ in range(50):
            torn = bytearray(good)
            torn[int(draws.integers(len(torn)))] = int(draws.integers(256))
            ask(server, bytes(torn))
        assert b"200 OK" in ask(server, good)


def test_a_file_without_an_end_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "AT_ONCE", 64)
    lines = [{"step": step} for step in range(20)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "steps.jsonl").write_text(text + "x" * 200 + "\n" + '{"step": 99}\n')
    tail, found = Tail(tmp_path / "steps.jsonl"), []
    for _ in range(20):
        anew, records = tail.read()
        assert not anew
        found += records
    assert found == [*lines, {"step": 99}]


def test_folders_that_nobody_may_look_into_or_that_say_too_much(tmp_path: Path) -> None:
    assert find([Path("x" * 300)]) == {}
    run = fake_run(tmp_path, "m" * 10_000).path
    header = read_header(run)
    assert header is not None
    assert len(header.method) == LONGEST
    (run / "steps.jsonl").write_bytes(b'{"step": 1e999, "loss": {}}\n{"step": [], "loss": "x", "tracker": 3}\n\xff\n[')
    (run / "timing.jsonl").write_bytes(b'{"step": true, "seconds": "1"}\n')
    (run / "done.json").write_bytes(b'{"passes": [], "seconds": NaN}')
    heard = list(events([tmp_path], [], lambda seconds: True))
    assert [event.partition(b"\n")[0] for event in heard] == [b"event: runs", b"event: run"]
