"""A Ray cluster: one that runs already, or one on this machine alone."""

from __future__ import annotations

import logging
import os
import socket
import sys
from typing import Any

from surefoot.errors import InputError

PATIENCE = 20.0  # seconds to wait for a cluster to answer
_LOOPBACK = "127.0.0.1"


def connect(address: str | None = None, *, cores: int | None = None) -> Any:
    """Connect to a Ray cluster.

    Args:
        address: ``auto`` for the cluster that runs on this machine, ``host:6379`` or ``ray://host:10001`` for another,
            ``local`` for a new one on this machine that ends with this process and listens to nobody else. Left out:
            what ``RAY_ADDRESS`` says, else a cluster that runs here, else a new one.
        cores: Of a new one; else as many as there are.

    Returns:
        The module ``ray``, connected. One that is connected already stays so.

    Raises:
        InputError: If Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise InputError("Expected Ray to be installed, but it is not. Run pip install 'surefoot[ray]'.") from error
    if ray.is_initialized():
        return ray
    told = address or os.environ.get("RAY_ADDRESS")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if told == "local" or (told is None and not _runs_here(ray, quiet)):
        # Left to itself Ray would listen to the whole network.
        ray.init(address="local", num_cpus=cores, include_dashboard=False, _node_ip_address=_LOOPBACK, **quiet)
    elif told is not None:
        _check_port(told)
        try:
            ray.init(address=told, **quiet)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise _none_at(told, str(error).partition("\n")[0]) from error
    return ray


def is_connected() -> bool:
    """Return whether this process is connected to a cluster already."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _runs_here(ray: Any, quiet: dict[str, Any]) -> bool:
    try:
        ray.init(address="auto", **quiet)
    except (ConnectionError, RuntimeError, ValueError):
        return False
    return True


def _check_port(address: str) -> None:
    """Knock before Ray does, which waits for minutes where nobody opens."""
    host, _, port = address.rpartition("://")[2].rstrip("/").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE):
            return
    except OSError as error:
        raise _none_at(address, error.strerror or str(error) or type(error).__name__) from error


def _none_at(address: str, why: str) -> InputError:
    do = "Start one with `ray start --head`, or leave the address out for one on this machine alone"
    return InputError(f"Expected a Ray cluster at {address}, but none answers ({why.rstrip('.')}). {do}.")
