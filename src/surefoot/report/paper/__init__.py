"""Figures of the papers, drawn from run folders with matplotlib: one file per figure. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from surefoot.atomic import replacing
from surefoot.errors import InputError
from surefoot.records import RunFolder
from surefoot.registry import FIGURES

FORMATS = (".pdf", ".png", ".svg")


def is_possible() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(name: str, runs: Sequence[RunFolder], path: Path) -> bool:
    """Draw a figure into a file.

    Args:
        name: As ``surefoot list figures`` shows it.
        runs: Finished runs; those that differ in nothing but the seed are drawn together.
        path: Ends in .pdf, .png or .svg.

    Returns:
        Whether the runs recorded what the figure needs; if not, nothing is written.

    Raises:
        InputError: If matplotlib is missing or cannot write such a file.
    """
    if not is_possible():
        raise InputError("Expected matplotlib to be installed, but it is not. Run pip install 'surefoot[figures]'.")
    if path.suffix not in FORMATS:
        raise InputError(f"Expected a file that ends in {', '.join(FORMATS)}, but got {path.name!r}. Rename it.")
    figure = FIGURES.build(FIGURES.parse(name), list(runs))
    if figure is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Neither the date nor the version of matplotlib: the same records give the same file.
    undated = (
        {"Software": None} if path.suffix == ".png" else {"CreationDate" if path.suffix == ".pdf" else "Date": None}
    )
    with replacing(path) as aside:
        figure.savefig(aside, dpi=110, metadata=undated, format=path.suffix[1:])
    return True
