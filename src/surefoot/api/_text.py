"""What the command line prints, as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def as_text(parts: Iterable[Any]) -> str:
    """Write what rich would print, without colours and 100 columns wide."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False, markup=False, soft_wrap=isinstance(part, str | Text))
    return captured.get().rstrip()
