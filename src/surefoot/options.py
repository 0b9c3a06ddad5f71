"""The options of a part: the keyword-only parameters of its signature, read from what a person types."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from surefoot.errors import InputError, OptionError
from surefoot.schema import OptionValue, show_option

T = TypeVar("T", bound=str)
REQUIRED = inspect.Parameter.empty
_KEY_AND_VALUE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Option:
    """A keyword that a part takes: its type, and its default if it has one."""

    name: str
    type: Any
    default: Any = REQUIRED

    def __str__(self) -> str:
        """Write the option as ``surefoot list`` shows it."""
        return self.name if self.default is REQUIRED else f"{self.name}={show_option(self.default)}"

    def read(self, value: OptionValue, owner: str) -> OptionValue:
        """Turn a value, often the text typed by a person, into one of this option's type.

        Args:
            value: Text, or a value that has a type already.
            owner: Name of the part, for the error message.

        Returns:
            The value as declared by the part's signature.

        Raises:
            OptionError: If the value cannot be one of that type.

        Example:
            >>> Option("rho", float).read("2", "sam"), Option("path", str | None).read("none", "cifar10")
            (2.0, None)
        """
        is_union = typing.get_origin(self.type) in (typing.Union, types.UnionType)
        choices = typing.get_args(self.type) if is_union else (self.type,)
        # None comes first: as text, "none" could be anything.
        for choice in sorted(choices, key=lambda choice: choice is not types.NoneType):
            try:
                read: OptionValue = _read_as(choice, value)
            except (ValueError, TypeError):
                continue
            return read
        wanted = " or ".join(_type_name(choice) for choice in choices)
        raise OptionError(f"Expected {owner}:{self.name} to be {wanted}, but got {value!r}. Write {self.name}=…")


def one_of(text: str, allowed: Sequence[T], where: str) -> T:
    """Read a word of which there are few.

    Args:
        text: What was typed, or stands in a file.
        allowed: The words.
        where: Who says so, for the message.

    Returns:
        The word, as one of these.

    Raises:
        InputError: If it is none of them.
    """
    for each in allowed:
        if each == text:
            return each
    words = (" or " if len(allowed) == 2 else ", ").join(allowed)
    raise InputError(f"Expected {where} to be {words}, but got {text!r}. Choose one of them.")


def options_of(function: Callable[..., Any]) -> dict[str, Option]:
    """Read the options of a function, or of a class from its constructor.

    Args:
        function: The function or class.

    Returns:
        Its keyword-only parameters by name, in their order.

    Example:
        >>> def make(shape, *, width: int = 8, activation="relu"): ...
        >>> [str(option) for option in options_of(make).values()]
        ['width=8', 'activation=relu']
    """
    return {
        parameter.name: Option(parameter.name, _type_of(parameter, function), parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def positional(function: Callable[..., Any]) -> list[str]:
    """Name the arguments that a function or class must be given in order.

    Args:
        function: The function or class.

    Returns:
        Names of its positional parameters without a default.

    Example:
        >>> positional(lambda base, model=None, *, rho=0.1: None)
        ['base']
    """
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is REQUIRED
    ]


def read_options(text: str, owner: str, options: typing.Iterable[str]) -> dict[str, OptionValue]:
    """Read ``key=value,…``; a piece without ``=`` is the value of the first option, so that ``npz:photos.npz`` works.

    Args:
        text: What was typed behind the name of a part.
        owner: The name of the part, for the error message.
        options: Names of its options, in their order.

    Returns:
        The options that were given, not yet checked.

    Raises:
        OptionError: If there are two values without a name.
    """
    given: dict[str, OptionValue] = {}
    first = next(iter(options), None)
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        if match := _KEY_AND_VALUE.fullmatch(piece):
            given[match[1]] = match[2].strip()
        elif first is None or first in given:
            raise OptionError(f"Expected options of {owner!r} as key=value, but got {piece!r}. Write {owner}:key=value")
        else:
            given[first] = piece
    return given


def _type_name(choice: Any) -> str:
    if typing.get_origin(choice) is typing.Literal:
        return " or ".join(map(str, typing.get_args(choice)))
    if choice is types.NoneType:
        return "none"
    names = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    return names.get(choice, str(choice))


def _read_as(choice: Any, value: Any) -> Any:
    if choice is types.NoneType:
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
    elif typing.get_origin(choice) is typing.Literal:
        for allowed in typing.get_args(choice):
            if str(value) == str(allowed):
                return allowed
    elif choice is bool:
        named = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in named:
            return named[value.lower()]
    elif choice is int and not isinstance(value, bool):
        if int(value) == float(value):
            return int(value)
    elif choice is float and not isinstance(value, bool):
        return float(value)
    elif choice is str and isinstance(value, str):
        return value
    raise ValueError(value)


def _type_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Read an option's annotation; where there is none, or one that means nothing here, go by its default."""
    takes = function.__init__ if inspect.isclass(function) else function
    if parameter.annotation is not parameter.empty:
        holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
        try:
            return typing.get_type_hints(holder, getattr(takes, "__globals__", {}))[parameter.name]
        except NameError:  # imported for type checkers only
            pass
    known = {bool: bool, int: int | float, float: float}
    return known.get(type(parameter.default), str)
