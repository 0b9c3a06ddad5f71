"""The command line: parse, call one library function, print.

Results go to stdout, progress and errors to stderr. Exit code 0 is success, 1 a run that failed, 2 bad input,
130 an interrupt. Importing this package does not import torch.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from importlib import import_module
from typing import NoReturn

import typer

from surefoot.cli.app import app
from surefoot.clusters import is_first_process
from surefoot.errors import SurefootError
from surefoot.harmless import harmless
from surefoot.troubles import told

# click's UsageError, wherever this version of typer keeps it
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
INTERRUPTED = 130

_COMMANDS = ("train", "watch", "report", "parts", "audit", "conformal", "check", "estimate", "data", "shift", "study")
for _commands in _COMMANDS:  # in the order of --help
    import_module(f"surefoot.cli.{_commands}")


def main() -> None:
    """Run a command and turn every failure into one line and an exit code."""
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding has no character for is shown by number
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in sys.argv  # wherever it stands
    try:
        code = app([word for word in sys.argv[1:] if word != "--debug"], standalone_mode=False)
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "surefoot"
        _fail(f"{error.format_message().rstrip('.')}. See `{where} --help`.", 2)  # type: ignore[attr-defined]  # see _UsageError
    except SurefootError as error:
        if debug:
            raise
        if error.is_told_elsewhere:
            sys.exit(error.exit_code)
        _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        os._exit(0)  # the reader, such as `head`, has seen enough
    except SystemExit as error:  # how rich tells of a pipe that is closed
        if isinstance(error.__context__, BrokenPipeError):
            os._exit(0)
        raise
    except Exception as error:
        if debug:
            raise
        if known := told(error):
            _fail(*known)
        _fail(f"Something unexpected happened ({type(error).__name__}: {error}). Add --debug to see where.", 1)
    if code == INTERRUPTED:  # some versions of typer turn an interrupt into its exit code themselves
        _fail("Interrupted. What was finished is kept; run the same command again to go on.", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    print("Error: " + harmless(" ".join(message.split())), file=sys.stderr)
    sys.exit(code)


def _warn(message: Warning | str, *place: object, **more: object) -> None:
    if not is_first_process():  # of several that train together, which all say the same
        return
    print("Warning: " + harmless(" ".join(str(message).split())), file=sys.stderr)
