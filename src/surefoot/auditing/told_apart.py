"""Names for files that people can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surefoot.places import place


def told_apart(paths: Sequence[Path | str | Sequence[Path | str]]) -> list[str]:
    """Name files as shortly as they can be told apart: by their names, else from the first folder that differs.

    Args:
        paths: The files; several that are read as one are named after the first.

    Returns:
        One name each; the same for a file that is given twice.

    Example:
        >>> told_apart(["runs/sgd/test.npz", "runs/csam/test.npz"]), told_apart(["a/x.npz", "b/y.npz"])
        (['sgd/test.npz', 'csam/test.npz'], ['x.npz', 'y.npz'])
    """
    files = [path if isinstance(path, str | Path) else path[0] for path in paths]
    parts = [place(path).resolve().parts for path in files]
    different = len(set(parts))
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == different:
            # A link may have another name than what it leads to: the one that was typed is shown.
            return [place(path).name for path in files] if length == 1 else names
    return [str(path) for path in files]
