"""Flags made of a function's parameters: the same names, defaults and words as in Python."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from surefoot.config import load_config
from surefoot.settings import check_known, parameters_of

R = TypeVar("R")


def options_of(function: Callable[..., Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a command take the options of a function.

    Args:
        function: Each of its parameters annotated with a text becomes a flag; the others are for Python only.

    Returns:
        A decorator. The command's parameter ``options`` gets what was given, by name.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        own = inspect.signature(command, eval_str=True)
        flags = {flag.name: flag for flag in _flags(function) if flag.name not in own.parameters}

        @functools.wraps(command)
        def gather(**values: Any) -> R:
            given = {name: values.pop(name) for name in flags}
            options = {name: tuple(v or ()) if _is_list(flags[name]) else v for name, v in given.items()}
            return command(options=options, **values)

        parameters = [
            new.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for old in own.parameters.values()
            for new in (flags.values() if old.name == "options" else [old])
        ]
        gather.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # which functions do have
        gather.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return gather

    return decorate


def _flags(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter in parameters_of(function):
        annotation = parameter.annotation
        if typing.get_origin(annotation) is Annotated and isinstance(annotation.__metadata__[0], str):
            yield _flag(parameter, annotation.__origin__, annotation.__metadata__[0])


def _flag(parameter: inspect.Parameter, type_: Any, help_: str) -> inspect.Parameter:
    """Make one flag. Of a parameter that takes several types, the command line reads the first."""
    names, default = [], parameter.default
    is_union = typing.get_origin(type_) in (typing.Union, types.UnionType)
    first = typing.get_args(type_)[0] if is_union else type_
    type_ = first | None if default is None else first
    if default == ():
        type_, default = list[str] | None, None
    elif first is bool and default is False:
        names = [f"--{parameter.name.replace('_', '-')}"]  # without a --no-…, which would change nothing
    elif first is str and default is not None and default is not parameter.empty:
        default = str(default)
    completes = COMPLETED.get(parameter.name)
    option = typer.Option(*names, help=help_, autocompletion=completes)
    return parameter.replace(default=default, annotation=Annotated[type_, option])


def _is_list(flag: inspect.Parameter) -> bool:
    return bool(flag.annotation.__origin__ == list[str] | None)


def _use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take a file's settings for defaults: what is typed wins over them."""
    if path is not None:
        words = load_config(path)
        flags = {flag.name: flag for flag in context.command.params if flag.name not in ("config", "help", "as_json")}
        check_known(words, map(str, flags), f"{context.command.name} in {path}")
        context.default_map = {name: _as_typed(value, flags[name]) for name, value in words.items()}
    return path


def _as_typed(value: Any, flag: Any) -> Any:
    if flag.multiple:
        return [value] if isinstance(value, str) else value
    return ",".join(map(str, value)) + "," * (len(value) == 1) if isinstance(value, list) else value


Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings from a TOML file, or from the folder of an earlier run; what is typed wins.",
        callback=_use_config,
        is_eager=True,
    ),
]
COMPLETED: dict[str, Callable[[str], list[str]]] = {}
