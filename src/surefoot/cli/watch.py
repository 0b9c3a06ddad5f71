"""The live page: ``watch``, and what ``--watch`` starts beside a training."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.app import RUNS, app
from surefoot.clusters import is_first_process
from surefoot.serve import PORT

WatchIt = Annotated[bool, typer.Option("--watch", help="Serve a page on this machine that follows the training.")]


@app.command()
def watch(
    runs: Annotated[list[Path] | None, typer.Argument(help="Run folders, or folders that hold some.")] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve at; beyond this machine the page's address holds a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to serve at; 0: any that is free.", min=0, max=65535)] = PORT,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve a page that follows runs while they train: curves, reliability, and what they say in sentences.

    It reads run folders and writes nothing; runs that come later appear. Stop it with Ctrl-C.

    Example: [bold]surefoot watch surefoot-runs[/bold]

    From another machine: [bold]surefoot watch /shared/runs --host 0.0.0.0[/bold]
    """
    from surefoot.serve import WatchServer

    with WatchServer(runs or [RUNS], host=host, port=port) as server:
        print(f"Watch: {server.url}", flush=True)
        if beside:  # of a training, which holds the other end of this pipe however it ends
            sys.stdin.read()
        else:
            threading.Event().wait()


@contextmanager
def watched(out: Path | str, wanted: bool) -> Iterator[None]:
    """Serve the page while the block lasts, in a process of its own, which takes no time of the training's.

    Args:
        out: The run folder, or the folder that will hold some.
        wanted: Whether to.
    """
    if not wanted or not is_first_process():
        yield
        return
    from surefoot.api import find_place
    from surefoot.settings import HERE

    here, _ = find_place(out, HERE)  # of an address the folder in which its runs are made
    command = [sys.executable, "-m", "surefoot", "watch", str(here), "--beside", "--port"]
    server = _start([*command, str(PORT)]) or _start([*command, "0"])
    try:
        yield
    finally:
        if server is not None and server.stdin is not None:
            server.stdin.close()
            server.wait()


def _start(command: list[str]) -> subprocess.Popen[str] | None:
    """Start a server and tell its address; None where it cannot have its port."""
    server = subprocess.Popen(
        command,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the training
    )
    line = server.stdout.readline() if server.stdout is not None else ""
    if not line:
        server.wait()
        return None
    print(line.strip(), file=sys.stderr, flush=True)
    return server
