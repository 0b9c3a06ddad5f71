"""Who may look: this machine's own pages, or whoever knows the token."""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping

_HOST = re.compile(r"(\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(:[0-9]{1,5})?")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    Example:
        >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    found = _address(host)
    return found is not None and found.is_loopback


def refusal(headers: Mapping[str, str], *, loopback: bool) -> str | None:
    """Say why a request is refused by where it says that it comes from; None where it is not.

    A foreign page can send its visitor's browser here, under a name of its own that it has pointed at this machine
    (DNS rebinding): then Host is that name. On loopback only loopback's names are answered. Beyond it addresses and
    this machine's name are, for no foreign page is found under a bare address; and there the token has the last word.

    Args:
        headers: Of the request, their names in small letters.
        loopback: Whether only this machine is served.

    Returns:
        A sentence, or None.
    """
    host = headers.get("host", "")
    name = _name(host)
    known = is_loopback(name) or (not loopback and (_address(name) is not None or name.lower() in _own_names()))
    if not known:
        return "Expected this machine as Host, but got another one. Open the address that surefoot watch printed."
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return "Expected no foreign Origin, but got one. Open the address that surefoot watch printed."
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "Expected no page of another site to ask, but one did. Open the address that surefoot watch printed."
    return None


def strip_token(path: str, token: str | None) -> str | None:
    """Take the token off the front of a path.

    Args:
        path: ``/TOKEN/events``.
        token: What it has to be; None where none is needed.

    Returns:
        The rest, such as ``/events``; None if the token is not there or another one.

    Example:
        >>> strip_token("/abc/events", "abc"), strip_token("/abd/events", "abc"), strip_token("/events", None)
        ('/events', None, '/events')
    """
    if token is None:
        return path
    given, slash, rest = path.removeprefix("/").partition("/")
    if not slash or not hmac.compare_digest(given.encode(), token.encode()):
        return None
    return f"/{rest}"


def _name(host: str) -> str:
    """Return a host without its port, which is another one where a port is forwarded; nothing where it is no host.

    Example:
        >>> _name("localhost:80"), _name("[::1]:80"), _name("[::1].evil.example"), _name("localhost:80.evil.example")
        ('localhost', '::1', '', '')
    """
    found = _HOST.fullmatch(host)
    return (found["six"] or found["name"]) if found else ""


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _own_names() -> set[str]:
    return {socket.gethostname().lower(), socket.getfqdn().lower()}
