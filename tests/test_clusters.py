"""An address of a Ray cluster that leads nowhere is told within seconds, with its cause."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from surefoot import clusters
from surefoot.clusters import connect, disconnect, kept
from surefoot.errors import InputError

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'surefoot[ray]'")


@contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """Listen at a port; say something to whoever comes, or nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(answer or b"")

        thread = threading.Thread(target=serve)
        if answer is not None:
            thread.start()
        yield server.getsockname()[1]
        if answer is not None:
            thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_nobody_there() -> None:
    port = free_port()
    with pytest.raises(InputError, match=rf"nothing answers at 127.0.0.1:{port} .*refused.* Check the address"):
        connect(f"127.0.0.1:{port}")


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_somebody_else_there(prefix: str) -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n") as port,
        pytest.raises(InputError, match=rf"Expected a Ray cluster at {prefix}127.0.0.1:{port}.* is not Ray"),
    ):
        connect(f"{prefix}127.0.0.1:{port}")


def test_somebody_who_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "WAIT", 0.1)
    with answering(None) as port, pytest.raises(InputError, match=r"nothing answers .*timed out"):
        connect(f"127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["http://head:6379", "head", "head:http", ":6379", "s3://bucket/6379:1"])
def test_no_address_at_all(address: str) -> None:
    with pytest.raises(InputError, match=r"Expected the address of a Ray cluster, but got .* Write HOST:PORT"):
        connect(address)


def test_the_environment_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head")
    with pytest.raises(InputError, match="but got 'head'"):
        connect()


def test_no_cluster_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray looks through all processes of the machine, where somebody may have a cluster of their own."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.utils.read_ray_address", lambda *words: None)
    with pytest.raises(InputError, match=r"found none. Start one with `ray start --head`.* or say --address local"):
        connect("auto")


LOCAL = """
import json, os
from surefoot.clusters import connect, disconnect, kept
from tests.test_clusters import hosts_of
with kept():
    ray = connect("local")
    first = ray.get_runtime_context().gcs_address
    disconnect()
    again = connect("local").get_runtime_context().gcs_address
    hosts = hosts_of(os.getpid())
print(json.dumps([first, again, hosts, ray.is_initialized()]))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def hosts_of(parent: int) -> list[str]:
    """At which addresses the children of a process listen, as the kernel writes them."""
    sockets = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                sockets |= {os.readlink(file).removeprefix("socket:").strip("[]") for file in stat.parent.glob("fd/*")}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return sorted(words[1].partition(":")[0] for words in lines if words[3] == "0A" and words[9] in sockets)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_cluster_that_we_start_is_for_this_machine_only_and_ends() -> None:
    """Left and joined again within a block that keeps it, it is the same one."""
    code = [sys.executable, "-c", LOCAL]
    done = subprocess.run(code, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    first, again, hosts, is_left = json.loads(done.stdout)
    assert first == again
    assert not is_left
    assert len(hosts) >= 3  # the head, and two of the machine's own
    assert set(hosts) <= LOOPBACK


def test_a_process_that_is_in_a_cluster_stays_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    stopped: list[bool] = []
    monkeypatch.setattr(ray, "shutdown", lambda: stopped.append(True))
    assert connect() is ray
    with kept():
        disconnect()
    assert stopped == []  # it is not ours
    with pytest.raises(InputError, match=r"Expected to join the Ray cluster at head:6379, but this process is in one"):
        connect("head:6379")


def test_ray_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Expected Ray to be installed.*pip install 'surefoot\[ray\]'"):
        connect("local")
