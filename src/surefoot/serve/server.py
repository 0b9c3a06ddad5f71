"""The server: a few files and a stream of events, on loopback unless told otherwise.

The standard library's server is enough. Every open page is one thread that sleeps for most of a second, reads what was
added to a file and writes a line; nothing is shared between them, so there is nothing to lock and nothing to install.
It answers GET and HEAD, for the names in ``PAGES`` and the stream. No path of a request is ever a path on the disk.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

from surefoot.errors import InputError
from surefoot.serve.guard import HEADERS, is_loopback, refusal, strip_token
from surefoot.serve.stream import events

PAGES = {
    "/": ("watch.html", "text/html; charset=utf-8"),
    "/watch.css": ("watch.css", "text/css; charset=utf-8"),
    "/watch.js": ("watch.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/cards.js": ("cards.js", "text/javascript; charset=utf-8"),
    "/overlay.js": ("overlay.js", "text/javascript; charset=utf-8"),
    "/list.js": ("list.js", "text/javascript; charset=utf-8"),
}
MOST_STREAMS = 64  # open at once
MOST_CONNECTIONS = 128
ARRIVES = 10.0  # seconds for a request to arrive whole, however slowly it is sent


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: WatchServer
    server_version = "surefoot"
    sys_version = ""
    timeout = 60  # seconds in which a page takes no news, until it is given up

    def do_GET(self) -> None:
        """Send a file or the stream."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        self.server.note_arrival(self.request)
        names = {name.lower() for name in self.headers}
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in names}  # of two hosts none is known
        reason = refusal(headers, loopback=self.server.loopback)
        if reason is not None:
            self._send(HTTPStatus.FORBIDDEN, reason.encode(), "text/plain; charset=utf-8", with_body)
            return
        try:
            asked = urlsplit(self.path)
        except ValueError:  # such as //[
            asked = urlsplit("/there-is-nothing-here")
        path = strip_token(asked.path, self.server.token)
        if path is None:
            message = "Expected the token in the address, but got none or another. Open what surefoot watch printed."
            self._send(HTTPStatus.FORBIDDEN, message.encode(), "text/plain; charset=utf-8", with_body)
        elif path in PAGES:
            name, kind = PAGES[path]
            content = resources.files("surefoot.serve").joinpath(name).read_bytes()
            self._send(HTTPStatus.OK, content, kind, with_body)
        elif path == "/events" and with_body:
            self._stream(parse_qs(asked.query).get("run", [""])[0].split(","))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is nothing here.", "text/plain; charset=utf-8", with_body)

    def _send(self, status: HTTPStatus, content: bytes, kind: str, with_body: bool) -> None:
        self.send_response(status)
        self._head(kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def _head(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        for name, value in HEADERS.items():
            self.send_header(name, value)

    def _stream(self, wanted: list[str]) -> None:
        if not self.server.places.acquire(blocking=False):
            message = f"Expected at most {MOST_STREAMS} open pages, but there are more. Close some.".encode()
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, message, "text/plain; charset=utf-8", True)
            return
        try:
            self.send_response(HTTPStatus.OK)
            self._head("text/event-stream")
            self.end_headers()
            for event in events(self.server.paths, wanted, self.server.ended.wait):
                self.wfile.write(event)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionError, TimeoutError):
            pass  # the page was closed
        finally:
            self.server.places.release()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the address, which may hold the token, is nobody's business."""


class WatchServer(ThreadingHTTPServer):
    """Serves the page that follows run folders. It has no state: started again, it shows the same.

    Args:
        paths: Run folders, or folders that hold some; they may come later.
        host: An address of this machine. Beyond loopback a token is needed, which is part of :attr:`url`.
        port: 0 for any that is free.

    Attributes:
        url: What to open.

    Raises:
        InputError: If the address cannot be had.
    """

    daemon_threads = True

    def __init__(self, paths: Sequence[Path | str], *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.paths = [Path(path).absolute() for path in paths]
        self.loopback = is_loopback(host)
        self.token = None if self.loopback else secrets.token_urlsafe(24)
        self.ended = threading.Event()
        self.places = threading.BoundedSemaphore(MOST_STREAMS)
        self._arriving: dict[Any, float | None] = {}  # open connections: since when, and None once they have asked
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"Expected to serve at {host}, port {port}, but got: {error}. "
                "Add --port 0 for any port that is free, or open the page that is there already."
            ) from error
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}/" + (f"{self.token}/" if self.token else "")

    def __enter__(self) -> WatchServer:
        """Answer in a thread until the block ends."""
        threading.Thread(target=self.serve_forever, name="surefoot watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, also the open streams."""
        self.ended.set()
        self.shutdown()
        self.server_close()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Turn away who comes when too many are there."""
        return len(self._arriving) < MOST_CONNECTIONS

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note when somebody has come."""
        self._arriving[request] = time.monotonic()
        super().process_request(request, client_address)

    def note_arrival(self, request: Any) -> None:
        """Note that somebody has asked."""
        if request in self._arriving:
            self._arriving[request] = None

    def service_actions(self) -> None:
        """End connections whose requests do not come to an end; called twice a second."""
        late = time.monotonic() - ARRIVES
        for request, since in list(self._arriving.items()):
            if since is not None and since < late:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that ends."""
        self._arriving.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing about connections that break: browsers close them as they like."""
