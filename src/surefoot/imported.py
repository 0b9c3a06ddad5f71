"""Users' own parts: a function named by its module and its name, ``mypkg.nets:make_net``."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from surefoot.errors import UnknownNameError

IMPORT_PATH = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)(?::(.*))?", re.DOTALL)  # and options behind it


def is_import_path(name: str) -> bool:
    """Return whether a name, without options, is that of a user's own part.

    Example:
        >>> is_import_path("mypkg.nets:make_net"), is_import_path("mypkg.nets"), is_import_path("npz:photos.npz")
        (True, False, False)
    """
    match = IMPORT_PATH.fullmatch(name)
    return match is not None and match[2] is None


def import_function(kind: str, path: str, known: Iterable[str]) -> tuple[Callable[..., Any], str | None]:
    """Import what a path names.

    Args:
        kind: What is looked for, for the error message.
        path: ``"mypkg.nets:make_net"``.
        known: Names that might have been meant instead.

    Returns:
        The function, and a hash of the file that it is in, where there is one.

    Raises:
        UnknownNameError: If there is none.
    """
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the user's file does when it is imported
        is_missing = isinstance(error, ImportError)
        raise UnknownNameError(
            f"Unknown {kind} {path!r}: cannot import {module_name!r} "
            f"({error if is_missing else f'{type(error).__name__}: {error}'}).{did_you_mean(module_name, known)} "
            f"{'Run in the folder that holds it, or install it.' if is_missing else 'Correct it.'}"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        close = did_you_mean(attribute, [name for name in vars(module) if not name.startswith("_")])
        raise UnknownNameError(f"Unknown {kind} {path!r}: {module_name} has no function {attribute!r}.{close}")
    try:
        source = hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:12]
    except (OSError, TypeError):
        source = None
    return function, source


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Name what is close to a name that nothing has; empty where nothing is."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
