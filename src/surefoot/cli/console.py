"""Where tables and sentences are printed."""

from __future__ import annotations

from rich.console import Console

LEAST_WIDTH = 60  # columns that tables need to be read


def terminal() -> Console:
    """Return the terminal; one that is too narrow for a table wraps its lines, instead of losing names."""
    console = Console()
    return console if console.width >= LEAST_WIDTH else Console(width=LEAST_WIDTH)
