"""Parts by name: one decorator registers a part, one registry per kind finds it.

A part is a class or function in a file of its kind's folder. Its keyword-only parameters are its options; their
annotations and defaults are all that the command line, ``surefoot list`` and the run record know about them.
The folder is imported when a registry is first asked, so a new file needs no edit anywhere else.

Parts from outside come in two ways. An installed package declares a module under the entry point group
``surefoot.parts``; its registrations then run with the folder's. And any class or function is named by import path,
``mypkg.nets:make_net``, with options behind a second colon: ``mypkg.nets:make_net:width=8``. A registered name wins:
``npz:photos`` is never a function of a module ``npz``.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from surefoot.errors import OptionError, PartsWarning, UnknownNameError
from surefoot.imported import (
    IMPORT_PATH,
    did_you_mean,
    failure,
    import_function,
    import_public,
    is_import_path,
    packages,
    source_of,
)
from surefoot.options import REQUIRED, Option, options_of, positional, read_options
from surefoot.schema import OptionValue, PartSpec

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Part:
    """A registered class or function with its one-line summary, its options and the facts its kind asks for."""

    name: str
    build: Callable[..., Any]
    summary: str
    options: Mapping[str, Option]
    facts: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    """A hash of the file, for parts from outside surefoot."""

    @property
    def package(self) -> str:
        """The package that the part comes from: ``surefoot``, or that of a user."""
        return self.build.__module__.partition(".")[0]

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
            if value is REQUIRED:
                raise OptionError(f"Expected {self.name} to be given {key}. Write {self.name}:{key}=…")
            filled[key] = option.read(value, self.name) if key in given else value
        return PartSpec(self.name, filled, self.source)


class Registry:
    """All parts of one kind.

    Args:
        kind: What one of them is called.
        folder: The package whose public modules register them.
        facts: What each must declare, with what is assumed of a part named by import path that does not say it.
    """

    def __init__(self, kind: str, folder: str, *, facts: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.folder = folder
        self._facts = dict(facts or {})
        self._parts: dict[str, Part] = {}
        self._loaded = False

    def register(self, name: str, **facts: Any) -> Callable[[F], F]:
        """Register the decorated class or function.

        Args:
            name: What people type.
            **facts: What this kind declares about its parts, such as a metric's direction.

        Returns:
            A decorator that returns the class or function unchanged.

        Raises:
            ValueError: If the name is taken, a fact is missing or there is no docstring.
        """

        def decorate(function: F) -> F:
            is_ours = function.__module__.partition(".")[0] == "surefoot"
            if not is_ours:
                self._load_folder()  # surefoot's own names come first, whatever is imported first
            missing = [fact for fact in self._facts if fact not in facts]
            if name in self._parts:
                raise ValueError(
                    f"Expected a new {self.kind} name in {function.__module__}, but {name!r} is registered already, "
                    f"by {self._parts[name].build.__module__}. Choose another name"
                )
            if missing or not function.__doc__:
                raise ValueError(f"Expected {self.kind} {name!r} to have a docstring and {missing or 'its facts'}.")
            self._parts[name] = _make_part(name, function, facts, None if is_ours else source_of(function.__module__))
            return function

        return decorate

    def load(self) -> None:
        """Import every public module of the folder, and what installed packages declare, once."""
        self._load_folder()
        _load_packages()

    def _load_folder(self) -> None:
        if not self._loaded:
            self._loaded = True
            import_public(import_module(f"surefoot.{self.folder}"))

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
            function = import_function(self.kind, name, self._parts)
            return _make_part(name, function, self._facts_of(function), source_of(name.partition(":")[0]))
        raise unknown_name(self.kind, name, self._parts)

    def _facts_of(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return what a part named by import path says about itself by attributes, and what is assumed of the rest.

        An optimizer around another one calls that one ``base``.
        """
        for part in self._parts.values():
            if part.build is function:
                return dict(part.facts)
        said = {key: value for key, value in vars(function).items() if not key.startswith("_")}
        if inspect.isclass(function):  # whose methods and properties are no facts
            said = {key: value for key, value in said.items() if key in self._facts and not isinstance(value, property)}
        assumed = {key: function.__name__ if value is NAME else value for key, value in self._facts.items()}
        wraps = {"wraps": True} if positional(function)[:1] == ["base"] else {}
        return {**assumed, **wraps, **said}

    def read(self, text: str) -> tuple[Part, dict[str, OptionValue]]:
        """Read ``name:key=value,…`` as a person types it.

        Args:
            text: What was typed.

        Returns:
            The part and the options that were given, not yet checked.

        Raises:
            UnknownNameError: If there is no such part.
        """
        name, _, rest = text.strip().partition(":")
        if name not in self and (match := IMPORT_PATH.fullmatch(text.strip())):
            name, rest = match[1], match[2] or ""
        elif name not in self and "." in name and not rest:
            raise UnknownNameError(f"Unknown {self.kind} {name!r}. Write your own part as {name}:function.")
        part = self[name]
        return part, read_options(rest, name, part.options)

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
        """Call a part's class or function.

        Args:
            spec: The part with its options.
            *args: What this kind passes to all of its parts.

        Returns:
            Whatever the part makes.

        Raises:
            OptionError: If the options are not those of the part, as in a file that somebody changed.
        """
        part = self[spec.name]
        return part.build(*args, **part.spec(spec.options).options)


def _make_part(name: str, function: Callable[..., Any], facts: Mapping[str, Any], source: str | None) -> Part:
    summary = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
    return Part(name, function, summary, options_of(function), facts, source)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that nothing is registered under."""
    return UnknownNameError(f"Unknown {kind} {name!r}.{did_you_mean(name, known)} Run `surefoot list` to see all.")


NAME = object()  # assume the name of the function

OPTIMIZERS = Registry("optimizer", "optim", facts={"passes": 1, "reference": ""})
LOSSES = Registry("loss", "losses", facts={"reference": ""})
METRICS = Registry(
    "metric",
    "metrics",
    facts={"label": NAME, "lower_is_better": True, "range": (-math.inf, math.inf), "unit": "", "reference": ""},
)
CALIBRATORS = Registry("calibrator", "calibrators", facts={"reference": "", "keeps_order": False})
SETS = Registry("conformal score", "prediction_sets", facts={"reference": "", "choose": None})
MODELS = Registry("model", "models")
DATA = Registry("data set", "data")
AUGMENTATIONS = Registry("augmentation", "data.augment")
CORRUPTIONS = Registry(
    "corruption", "data.corruptions", facts={"group": "extra", "main": False, "rank": 100, "severities": ()}
)
TRACKERS = Registry("tracker", "trackers")
ENSEMBLES = Registry("ensemble", "ensembles", facts={"reference": ""})
STUDIES = Registry("study", "studies.claims")
FIGURES = Registry("figure", "report.paper")

KINDS: dict[str, Registry] = {
    "optimizers": OPTIMIZERS,
    "losses": LOSSES,
    "ensembles": ENSEMBLES,
    "metrics": METRICS,
    "calibrators": CALIBRATORS,
    "sets": SETS,
    "models": MODELS,
    "data": DATA,
    "augmentations": AUGMENTATIONS,
    "corruptions": CORRUPTIONS,
    "trackers": TRACKERS,
    "studies": STUDIES,
    "figures": FIGURES,
}

_packages_loaded: list[bool] = []


def _load_packages() -> None:
    """Import what installed packages declare, once. One that fails is left out whole, and said to be."""
    if _packages_loaded:
        return
    _packages_loaded.append(True)
    for package, point in packages():
        try:
            import_public(point.load())
        except Exception as error:  # whatever somebody's package does when it is imported
            broken = point.module.partition(".")[0]
            for registry in KINDS.values():
                registry._parts = {name: part for name, part in registry._parts.items() if part.package != broken}
            warnings.warn(
                f"The parts of package {package!r} are left out, because {point.value} cannot be imported "
                f"({failure(error)}). Correct or uninstall it.",
                PartsWarning,
                stacklevel=2,
            )
