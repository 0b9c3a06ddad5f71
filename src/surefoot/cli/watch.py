"""The live page: ``watch``, and what ``--watch`` starts beside a training."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from surefoot.cli.app import RUNS, app
from surefoot.clusters import is_first_process
from surefoot.harmless import harmless

PORT = 8765
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

    paths = runs or [RUNS]
    with WatchServer(paths, host=host, port=port) as server:
        print(f"Watch: {server.url}", flush=True)
        for path in paths if not beside else ():
            if not path.exists():
                print(harmless(f"{path} is not there yet; its runs appear as they come."), file=sys.stderr, flush=True)
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
    server, said = _start(here, PORT)
    if server is None:  # another page is at that port
        server, said = _start(here, 0)
    if server is None:
        said = f"No live page: {said} The training goes on; surefoot watch {here} shows it too."
    print(harmless(said), file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if server is not None:
            server.communicate()  # closes its pipe, at which it ends


def _start(path: Path, port: int) -> tuple[subprocess.Popen[str] | None, str]:
    """Start a server; return it and what it says, or None and why it has ended."""
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as trouble:
        server = subprocess.Popen(
            [sys.executable, "-m", "surefoot", "watch", str(path), "--beside", "--port", str(port)],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=trouble,
            env=alone,  # torchrun's processes are several, this one is not
            start_new_session=True,  # Ctrl-C is for the training
        )
        line = server.stdout.readline() if server.stdout is not None else ""
        if line:
            return server, line.strip()
        server.communicate()
        trouble.seek(0)
        return None, (trouble.read().strip().splitlines() or ["it has ended at once."])[-1].removeprefix("Error: ")
