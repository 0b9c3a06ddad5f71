"""Parts by name: one decorator registers a part, one registry per kind finds it.

A part is a function in a file of its kind's folder. Its keyword-only parameters are its options; their
annotations and defaults are all that the command line, ``surefoot list`` and the run record know about them.
The folder is imported when a registry is first asked, so a new file needs no edit anywhere else.

Users' own parts are named by import path, ``mypkg.nets:make_net``, with options behind a second colon:
``mypkg.nets:make_net:width=8``. A registered name wins: ``npz:photos`` is never a function of a module ``npz``.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from surefoot.errors import OptionError, UnknownNameError
from surefoot.imported import IMPORT_PATH, did_you_mean, import_function, is_import_path
from surefoot.schema import OptionValue, PartSpec, show_option

F = TypeVar("F", bound=Callable[..., Any])
_OPTION = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Option:
    """A keyword that a part takes: its type, and its default if it has one."""

    name: str
    type: Any
    default: Any = _REQUIRED

    def __str__(self) -> str:
        """Write the option as ``surefoot list`` shows it."""
        return self.name if self.default is _REQUIRED else f"{self.name}={show_option(self.default)}"

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


@dataclass(frozen=True)
class Part:
    """A registered function with its one-line summary, its options and the facts its kind asks for."""

    name: str
    build: Callable[..., Any]
    summary: str
    options: Mapping[str, Option]
    facts: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None

    def spec(self, given: Mapping[str, OptionValue]) -> PartSpec:
        """Fill in every option.

        Args:
            given: The options that were asked for.

        Returns:
            The part with its complete options, in the order of the signature.

        Raises:
            OptionError: If an option is unknown, missing or of the wrong type.
        """
        for key in given:
            if key not in self.options:
                takes = ", ".join(self.options) or "no options"
                hint = did_you_mean(key, self.options)
                if is_import_path(self.name):
                    hint += f" Options are keyword-only parameters: def {self.name.partition(':')[2]}(*, {key}=…)."
                raise OptionError(f"Unknown option {key!r} for {self.name!r}, which takes {takes}.{hint}")
        filled = {}
        for key, option in self.options.items():
            value = given.get(key, option.default)
            if value is _REQUIRED:
                raise OptionError(f"Expected {self.name} to be given {key}. Write {self.name}:{key}=…")
            filled[key] = option.read(value, self.name) if key in given else value
        return PartSpec(self.name, filled, self.source)


class Registry:
    """All parts of one kind."""

    def __init__(self, kind: str, folder: str, *, facts: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.folder = folder
        self._required_facts = facts
        self._parts: dict[str, Part] = {}
        self._loaded = False

    def register(self, name: str, **facts: Any) -> Callable[[F], F]:
        """Register the decorated function.

        Args:
            name: What people type.
            **facts: What this kind declares about its parts, such as a metric's direction.

        Returns:
            A decorator that gives the function back unchanged.

        Raises:
            ValueError: If the name is taken, a fact is missing or there is no docstring.
        """

        def decorate(function: F) -> F:
            missing = [fact for fact in self._required_facts if fact not in facts]
            if name in self._parts:
                raise ValueError(f"Expected a new {self.kind} name, but {name!r} is registered already.")
            if missing or not function.__doc__:
                raise ValueError(f"Expected {self.kind} {name!r} to have a docstring and {missing or 'its facts'}.")
            self._parts[name] = _make_part(name, function, facts)
            return function

        return decorate

    def load(self) -> None:
        """Import every public module of the folder, once."""
        if not self._loaded:
            self._loaded = True
            package = import_module(f"surefoot.{self.folder}")
            for module in pkgutil.iter_modules(package.__path__):
                if not module.name.startswith("_"):
                    import_module(f"{package.__name__}.{module.name}")

    def __iter__(self) -> Iterator[Part]:
        """Go through all parts by name."""
        self.load()
        return iter(sorted(self._parts.values(), key=lambda part: part.name))

    def __contains__(self, name: str) -> bool:
        """Return whether the name is registered."""
        self.load()
        return name in self._parts

    def __getitem__(self, name: str) -> Part:
        """Find a part by its registered name or by import path.

        Args:
            name: ``"csam"`` or ``"mypkg.nets:make_net"``.

        Returns:
            The part.

        Raises:
            UnknownNameError: If there is no such part.
        """
        if name in self:
            return self._parts[name]
        if is_import_path(name):
            function, source = import_function(self.kind, name, self._parts)
            return _make_part(name, function, _facts_of(function), source)
        raise unknown_name(self.kind, name, self._parts)

    def read(self, text: str) -> tuple[Part, dict[str, OptionValue]]:
        """Read ``name:key=value,…`` as a person types it.

        A piece without ``=`` is the value of the part's first option, so that ``npz:photos.npz`` works.

        Args:
            text: What was typed.

        Returns:
            The part and the options that were given, not yet checked.

        Raises:
            OptionError: If there are two values without a name.
        """
        name, _, rest = text.strip().partition(":")
        if name not in self and (match := IMPORT_PATH.fullmatch(text.strip())):
            name, rest = match[1], match[2] or ""
        elif name not in self and "." in name and not rest:
            raise UnknownNameError(f"Unknown {self.kind} {name!r}. Write your own part as {name}:function.")
        part = self[name]
        given: dict[str, OptionValue] = {}
        for piece in filter(None, (piece.strip() for piece in rest.split(","))):
            if match := _OPTION.fullmatch(piece):
                given[match[1]] = match[2].strip()
                continue
            first = next(iter(part.options), None)
            if first is None or first in given:
                raise OptionError(
                    f"Expected options of {name!r} as key=value, but got {piece!r}. Write {name}:key=value"
                )
            given[first] = piece
        return part, given

    def parse(self, text: str) -> PartSpec:
        """Read ``name:key=value,…`` and fill in what was not said.

        Args:
            text: What was typed.

        Returns:
            The complete part.
        """
        part, given = self.read(text)
        return part.spec(given)

    def build(self, spec: PartSpec, *args: Any) -> Any:
        """Call a part's function.

        Args:
            spec: The part with its options.
            *args: What this kind passes to all of its parts.

        Returns:
            Whatever the part makes.
        """
        return self[spec.name].build(*args, **spec.options)


def _make_part(name: str, function: Callable[..., Any], facts: Mapping[str, Any], source: str | None = None) -> Part:
    options = {
        parameter.name: Option(parameter.name, _type_of(parameter, function), parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    return Part(name, function, summary, options, facts, source)


def _facts_of(function: Callable[..., Any]) -> dict[str, Any]:
    """See what a user's own part would have declared: attributes of the function, such as a metric's ``label``.

    An optimizer around another one calls that one ``base``.
    """
    takes = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    said = vars(function) if inspect.isfunction(function) else {}
    facts = {key: value for key, value in said.items() if not key.startswith("_")}
    return {"wraps": True, **facts} if takes and takes[0].name == "base" else facts


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


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that nothing is registered under."""
    return UnknownNameError(f"Unknown {kind} {name!r}.{did_you_mean(name, known)} Run `surefoot list` to see all.")


OPTIMIZERS = Registry("optimizer", "optim", facts=("passes", "reference"))
LOSSES = Registry("loss", "losses", facts=("reference",))
METRICS = Registry("metric", "metrics", facts=("label", "lower_is_better", "range", "unit", "reference"))
CALIBRATORS = Registry("calibrator", "calibrators", facts=("reference",))
MODELS = Registry("model", "models")
DATA = Registry("data set", "data")
AUGMENTATIONS = Registry("augmentation", "data.augment")
CORRUPTIONS = Registry("corruption", "data.corruptions", facts=("group", "main", "rank", "severities"))
TRACKERS = Registry("tracker", "trackers")
ENSEMBLES = Registry("ensemble", "ensembles", facts=("reference",))
STUDIES = Registry("study", "studies.claims")
FIGURES = Registry("figure", "report.paper")

KINDS: dict[str, Registry] = {
    "optimizers": OPTIMIZERS,
    "losses": LOSSES,
    "ensembles": ENSEMBLES,
    "metrics": METRICS,
    "calibrators": CALIBRATORS,
    "models": MODELS,
    "data": DATA,
    "augmentations": AUGMENTATIONS,
    "corruptions": CORRUPTIONS,
    "trackers": TRACKERS,
    "studies": STUDIES,
    "figures": FIGURES,
}
