"""Parts from outside: named by import path, ``mypkg.nets:make_net``, or declared by an installed package."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from surefoot.errors import UnknownNameError, UntrustedError

GROUP = "surefoot.parts"  # of entry points: name = module to import
IMPORT_PATH = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*)(?::(.*))?", re.DOTALL)  # and options behind it
_said: set[str] = set()  # what was asked for in this process, not by a received file
_received: ContextVar[str | None] = ContextVar("received", default=None)  # the file that is being opened


def is_import_path(name: str) -> bool:
    """Return whether a name, without options, is that of a user's own part.

    Example:
        >>> is_import_path("mypkg.nets:make_net"), is_import_path("mypkg.nets"), is_import_path("npz:photos.npz")
        (True, False, False)
    """
    match = IMPORT_PATH.fullmatch(name)
    return match is not None and match[2] is None


def import_function(kind: str, path: str, known: Iterable[str]) -> Callable[..., Any]:
    """Import what a path names.

    Args:
        kind: What is looked for, for the error message.
        path: ``"mypkg.nets:make_net"``.
        known: Names that might have been meant instead.

    Returns:
        The function or class.

    Raises:
        UnknownNameError: If there is none.
        UntrustedError: If a received file names it, and nobody else has.
    """
    where = _received.get()
    if where is not None and path not in _said:
        raise UntrustedError(
            f"Expected parts of surefoot's own in {where}, but it names the {kind} {path!r}, and to open it would run "
            "that code. Look at the code, then add --trust (in Python trust=True)."
        )
    _said.add(path)
    module_name, _, attribute = path.partition(":")
    try:
        with _folder_on_path():
            module = import_module(module_name)
    except Exception as error:  # whatever the user's file does when it is imported
        todo = "Run in the folder that holds it, or install it." if isinstance(error, ImportError) else "Correct it."
        raise UnknownNameError(
            f"Unknown {kind} {path!r}: cannot import {module_name!r} ({failure(error)})."
            f"{did_you_mean(module_name, known)} {todo}"
        ) from error
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if not callable(function):
        close = did_you_mean(attribute, [name for name in vars(module) if not name.startswith("_")])
        raise UnknownNameError(f"Unknown {kind} {path!r}: {module_name} has no function {attribute!r}.{close}")
    return function


@contextmanager
def received(where: Path | str, *, trust: bool = False) -> Iterator[None]:
    """Import nothing that a file names, as long as the block lasts, unless this process was told its name before.

    A run folder, and whatever else is sent from one person to another, may name any function of any module.

    Args:
        where: The folder or file, for messages.
        trust: Let it name whatever it likes.
    """
    token = _received.set(None if trust else str(where))
    try:
        yield
    finally:
        _received.reset(token)


@contextmanager
def _folder_on_path() -> Iterator[None]:
    """Look for modules in the present folder too, behind all others."""
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.reverse()  # the one that was put behind all others goes, even if the import has put in another
            sys.path.remove(here)
            sys.path.reverse()


def packages() -> Iterator[tuple[str, EntryPoint]]:
    """List which modules installed packages declare under the entry point group ``surefoot.parts``.

    Returns:
        The name of each package and the entry point, whose value is a module, or a package of modules, to import.
    """
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.value, point.name)):
        yield (point.dist.name if point.dist else point.name), point


def import_public(package: ModuleType) -> None:
    """Import every public module of a package; of a module that is no package there are none."""
    for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
        if not module.name.startswith("_"):
            import_module(f"{package.__name__}.{module.name}")


def source_of(module_name: str) -> str | None:
    """Return a hash of the file of a module that is imported, or None where there is no file.

    It enters the id of runs with parts from outside, which are made anew when their parts have changed.
    """
    try:
        return hashlib.sha256(inspect.getsource(sys.modules[module_name]).encode()).hexdigest()[:12]
    except (OSError, TypeError, KeyError):
        return None


def failure(error: Exception) -> str:
    """Say in one line why an import failed."""
    return " ".join(str(error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}").split())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Name what is close to a name that nothing has; empty where nothing is."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
