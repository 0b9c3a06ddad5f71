"""The server refuses whom it should, and serves nothing but its own files and the stream."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from surefoot.errors import InputError
from surefoot.serve import WatchServer
from surefoot.serve.guard import is_loopback, refusal
from tests.patience import PATIENCE, until
from tests.runs import fake_run

NAME = '<img src=x onerror="document.title=1">'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WatchServer]:
    fake_run(tmp_path, NAME)
    with WatchServer([tmp_path], port=0) as found:
        yield found


def get(server: WatchServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    link = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE)
    link.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        link.putheader(name.replace("_", "-"), value)
    link.endheaders()
    answer = link.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    link.close()
    return found


def test_the_page_and_its_parts_are_there_with_a_strict_policy(server: WatchServer) -> None:
    for path in ("/", "/watch.css", "/watch.js", "/charts.js", "/cards.js", "/overlay.js", "/list.js"):
        status, content, headers = get(server, path)
        assert status == 200
        assert content
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers
    assert b"<script>" not in get(server, "/")[1]
    assert get(server, "/", "HEAD")[:2] == (200, b"")


@pytest.mark.parametrize("file", ["watch.js", "charts.js", "cards.js", "overlay.js", "list.js"])
def test_the_script_writes_text_never_markup(file: str) -> None:
    import surefoot.serve

    text = (Path(surefoot.serve.__file__).parent / file).read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "javascript:"):
        assert word not in text


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/watch.py", "/server.py", "/.lock"),
        *("/events/../spec.json", "/watch.js/", "/spec.json", "/watch.js%00", "/?/../../etc/passwd/../x/"),
    ],
)
def test_no_path_of_a_request_is_a_path_on_the_disk(server: WatchServer, path: str) -> None:
    status, content, _ = get(server, path)
    assert status == 404 or (path.startswith("/?") and status == 200)
    assert b"root:" not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(server: WatchServer, method: str) -> None:
    assert get(server, "/", method)[0] == 501


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8765"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "192.168.0.3"},
        {"Host": "localhost.evil"},
        {"Host": "localhost.evil.example:8765"},
        {"Host": "localhost:80.evil.example"},
        {"Host": "localhost:80@evil.example"},
        {"Host": "evil.example#localhost"},
        {"Host": "localhost."},
        {"Host": "[::1].evil.example"},
        {"Host": "[::1"},
        {"Host": "0.0.0.0"},
        {"Host": "2130706433"},
        {"Host": "0x7f.1"},
        {"Host": "127.0.0.1.nip.io"},
        {"Host": "local host"},
        {"Host": ""},
        {"Host": "localhost", "Origin": "http://evil.example"},
        {"Host": "localhost", "Origin": "null"},
        {"Host": "localhost", "Origin": "http://localhost:1"},
        {"Host": "localhost", "Sec_Fetch_Site": "cross-site"},
        {"Host": "localhost", "sec_fetch_site": "same-site"},
    ],
)
def test_foreign_hosts_and_origins_are_refused(server: WatchServer, headers: dict[str, str]) -> None:
    for path in ("/", "/events"):
        status, content, _ = get(server, path, **headers)
        assert status == 403
        assert content.startswith(b"Expected ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:9000", "[::1]:9000"])
def test_this_machine_is_let_in_also_through_a_forwarded_port(server: WatchServer, host: str) -> None:
    assert get(server, "/", Host=host)[0] == 200
    assert get(server, "/", Host=host, Origin=f"http://{host}")[0] == 200


def raw(server: WatchServer, sent: bytes) -> bytes:
    """Send bytes as they are, and return all that comes back."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE) as link:
        with suppress(OSError):  # it need not hear everything
            link.sendall(sent)
        answer = b""
        with suppress(ConnectionResetError):
            while part := link.recv(1 << 16):
                answer += part
    return answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", b"403"),  # no Host at all
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n", b"403"),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"403"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: a\r\n" * 200 + b"\r\n", b"431"),
        (b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", b"501"),
        (b"HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET /..\\..\\etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET ../../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    ],
)
def test_whatever_is_sent_gets_a_short_refusal(server: WatchServer, sent: bytes, status: bytes) -> None:
    answer = raw(server, sent)
    assert answer.split()[1] == status
    assert b"root:" not in answer
    assert get(server, "/")[0] == 200  # and the others are served on


def test_a_request_that_never_ends_is_ended_and_too_many_are_turned_away(
    server: WatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.serve.server.ARRIVES", 0.2)
    monkeypatch.setattr("surefoot.serve.server.MOST_CONNECTIONS", 2)
    place = ("127.0.0.1", server.server_address[1])
    with socket.create_connection(place, PATIENCE) as first, socket.create_connection(place, PATIENCE) as second:
        first.sendall(b"GET / HTTP/1.1\r\nHost: local")  # and nothing more
        second.sendall(b"G")
        assert first.recv(100) == b""
        assert second.recv(100) == b""
    until(lambda: not server._arriving)  # for as long as they count, others are turned away
    monkeypatch.setattr("surefoot.serve.server.ARRIVES", 3600.0)
    with socket.create_connection(place, PATIENCE) as first, socket.create_connection(place, PATIENCE) as second:
        for link in (first, second):
            link.sendall(b"G")
        until(lambda: len(server._arriving) == 2)
        with suppress(ConnectionResetError), socket.create_connection(place, PATIENCE) as third:
            assert third.recv(100) == b""
    until(lambda: not server._arriving)
    assert get(server, "/")[0] == 200


def test_beyond_loopback_a_token_is_needed(tmp_path: Path) -> None:
    with WatchServer([tmp_path], host="0.0.0.0", port=0) as server:
        assert server.token is not None
        assert len(server.token) >= 32
        assert server.url.endswith(f"/{server.token}/")
        for path in ("/", "/events", "/watch.js", "/wrong/", f"/{server.token}", f"/{server.token[:-1]}/"):
            assert get(server, path)[0] == 403
        assert get(server, f"/{server.token}/")[0] == 200
        assert get(server, f"/{server.token}/watch.js")[0] == 200
        assert get(server, f"/{server.token}/", Host="evil.example")[0] == 403
        assert get(server, f"/{server.token}/", Host="10.0.0.7:80")[0] == 200
    with WatchServer([tmp_path], host="0.0.0.0", port=0) as again:
        assert again.token != server.token


def test_addresses_are_told_apart() -> None:
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.evil.example")
    assert refusal({"host": "a.b"}, loopback=False) is not None
    assert refusal({"host": f"{socket.gethostname()}:1"}, loopback=False) is None


def test_a_port_that_is_taken_is_told(server: WatchServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected to serve at 127\.0\.0\.1, port \d+, but got: .* Add --port 0"):
        WatchServer([tmp_path], port=server.server_address[1])


def test_the_stream_comes_over_the_wire_and_ends_with_the_server(tmp_path: Path) -> None:
    fake_run(tmp_path, NAME)
    with WatchServer([tmp_path], port=0) as server:
        link = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE)
        link.request("GET", "/events?run=nosuch")
        answer = link.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        assert answer.readline() == b"event: runs\n"
        told = json.loads(answer.readline().removeprefix(b"data: "))
        assert told["runs"][0]["method"] == NAME
        assert str(tmp_path) not in json.dumps(told)  # where it is on the disk is nobody's business
    while answer.readline():
        pass


def test_it_imports_no_torch() -> None:
    script = "import surefoot.serve, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
