"""An input is never an output: what is about to be written must not be what was read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from surefoot.errors import InputError


def check_output(out: Path | str, inputs: Iterable[Path | str], *, option: str = "--out") -> None:
    """Refuse to write over an input, by whatever name: another path, a symbolic or a hard link.

    Call it before the work starts, also for a name that was chosen by default.

    Args:
        out: The file that is about to be written.
        inputs: Files that are read.
        option: What chooses another name, for the message.

    Raises:
        InputError: If they are one and the same file.

    Example:
        >>> check_output("page.html", ["predictions.npz"])
    """
    out = Path(out).expanduser()
    for each in map(Path, inputs):
        if _is_same(out, each.expanduser()):
            raise InputError(
                f"Expected to write another file than is read, but {out} is the input {each}, which would be lost. "
                f"Choose another name with {option}."
            )


def _is_same(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)  # links lead to the file itself
    except OSError:  # one of them does not exist, or not yet
        return os.path.realpath(a) == os.path.realpath(b)
