"""Who else is at work: processes of torchrun, and the way into a Ray cluster.

A cluster is found, reached and joined within seconds, or it is told why not.

Ray itself retries an address that nobody answers at for many minutes, and tells a wrong token as a cluster that cannot
be reached. So the address is tried first, and what is wrong with it is said at once.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from surefoot.errors import InputError

WAIT = 20.0  # seconds for an address to answer; a busy machine takes some
ENGINES = ("local", "ray")  # where work is done: by processes of this machine, or by a cluster
LOCAL = "local"  # the address of a cluster that is started for this process
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))  # how HTTP/2, and so gRPC, begins
_SETTINGS = 4  # the type of the first frame that is answered
_opened = _kept = False


def connect(address: str | None = None, *, cores: int | None = None) -> Any:
    """Join a Ray cluster, or start one on this machine.

    Args:
        address: ``host:port``, ``ray://host:port``, ``auto`` for the cluster that this machine is part of, or ``local``
            for one that is started now, listens to this machine only and ends with :func:`disconnect`. Else what the
            environment variable ``RAY_ADDRESS`` says, else ``auto``. A process that has joined one stays in it.
        cores: How many a cluster that is started now says it has; else as many as there are.

    Returns:
        The module ``ray``.

    Raises:
        InputError: If Ray is not installed, or no cluster can be joined.
    """
    global _opened
    ray = _import()
    if ray.is_initialized():
        if address is not None and not _opened:
            raise InputError(
                f"Expected to join the Ray cluster at {address}, but this process is in one already. "
                "Leave the address out to use that one, or call ray.shutdown() before."
            )
        return ray
    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")  # else Ray replaces print, for whatever else this process does
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # they are told in one line, by whoever asked
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if wanted == LOCAL:
            _start(ray, {**quiet, "num_cpus": cores})
        else:
            ray.init(address=_reach(ray, wanted), **quiet)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(
            f"Expected to join the Ray cluster at {wanted}, but Ray says: {_first_line(error)}. "
            "Check the address and that both sides have the same versions of Ray and Python."
        ) from error
    _opened = True
    return ray


def disconnect() -> None:
    """Leave the cluster that :func:`connect` has joined; one that it started ends."""
    global _opened
    if _opened and not _kept:
        _import().shutdown()
        _opened = False


@contextmanager
def kept() -> Iterator[None]:
    """Stay in the cluster until the block ends, for whoever joins it several times: starting one takes seconds."""
    global _kept
    _kept = True
    try:
        yield
    finally:
        _kept = False
        disconnect()


def _import() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("Expected Ray to be installed, but it is not. Run pip install 'surefoot[ray]'.") from error
    return ray


def _start(ray: Any, quiet: dict[str, Any]) -> None:
    """Start a cluster of this machine alone, whose ports nobody else can reach."""
    from ray._private import ray_constants

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = getattr(ray_constants, "ENABLE_RAY_CLUSTER", True)
    ray_constants.ENABLE_RAY_CLUSTER = False  # Ray's own switch for loopback; it replaces a loopback address otherwise
    try:
        ray.init(address="local", include_dashboard=False, **quiet)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
    host = str(ray.get_runtime_context().gcs_address).rpartition(":")[0].strip("[]")
    if not (host.startswith("127.") or host == "::1"):
        ray.shutdown()
        raise InputError(
            f"Expected Ray to listen to this machine only, but it listens at {host}. "
            "Start a cluster yourself with `ray start --head` and pass --address auto."
        )


def _reach(ray: Any, wanted: str) -> str:
    """Find out whether a cluster answers, and lets us in.

    Returns:
        The address for Ray, which looks for a token of this machine where it is told ``auto``.
    """
    found = wanted if "://" in wanted else _resolve(wanted)
    host, _, port = found.removeprefix("ray://").rpartition(":")
    if not host or "://" in host or not port.isdigit():
        raise InputError(
            f"Expected the address of a Ray cluster, but got {wanted!r}. "
            "Write HOST:PORT, ray://HOST:PORT, auto or local."
        )
    _knock(host.strip("[]"), int(port), wanted)
    if "://" not in found:
        _ask_in(ray, found, wanted)
    return wanted


def _resolve(wanted: str) -> str:
    from ray._private.services import canonicalize_bootstrap_address

    if wanted != "auto":
        return wanted
    try:
        return str(canonicalize_bootstrap_address(wanted))
    except ConnectionError as error:
        raise InputError(
            "Expected a Ray cluster on this machine, but found none. Start one with `ray start --head`, name one with "
            "--address HOST:PORT, or say --address local for one that lasts as long as this command."
        ) from error


def _knock(host: str, port: int, wanted: str) -> None:
    """See whether anybody answers, and whether they speak what Ray speaks."""
    try:
        with socket.create_connection((host, port), WAIT) as line:
            if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
                return
            line.settimeout(WAIT)
            line.sendall(_HELLO)
            answer = line.recv(9)
    except OSError as error:
        raise InputError(
            f"Expected a Ray cluster at {wanted}, but nothing answers at {host}:{port} ({_first_line(error)}). "
            "Check the address, the firewall, and that `ray status` works there."
        ) from error
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise InputError(
            f"Expected a Ray cluster at {wanted}, but what answers at {host}:{port} is not Ray. "
            "Take the address that `ray start --head` printed; its port is 6379 unless told otherwise."
        )


def _ask_in(ray: Any, found: str, wanted: str) -> None:
    """Ask once, as Ray does over and over, so that a refusal is told as such."""
    if wanted == "auto":
        with suppress(ImportError):  # versions that know no tokens
            from ray._private.authentication import authentication_token_setup

            authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    wrong = getattr(ray.exceptions, "AuthenticationError", ())
    try:
        ray._raylet.GcsClient(address=found)
    except wrong as error:
        raise InputError(
            f"Expected to be let into the Ray cluster at {wanted}, but it refuses our token. "
            "Set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, to what the cluster was started with."
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")


def is_launched() -> bool:
    """Return whether ``torchrun`` has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def is_first_process() -> bool:
    """Return whether this is the one that speaks, of the processes that torchrun has started, or the only one."""
    return not is_launched() or os.environ["RANK"] == "0"


def refuse_launched(what: str) -> None:
    """Refuse to do in each of several processes what is to be done once.

    Args:
        what: The command.

    Raises:
        InputError: If torchrun has started several.
    """
    if is_launched():
        raise InputError(
            f"Expected `surefoot train` under torchrun, which shares one training among processes, but got {what}. "
            "Start it without torchrun; `compare`, `study` and `audit` use several machines with --engine ray."
        )
