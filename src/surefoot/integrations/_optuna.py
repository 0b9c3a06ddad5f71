"""What searches share: packages that may be missing, and values drawn from Optuna's distributions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from surefoot.errors import InputError


def package(name: str, extra: str) -> Any:
    """Import a package, or say how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"Expected {name} to be installed, but it cannot be imported ({error}). Run pip install '{extra}'."
        ) from error


def suggest(trial: Any, name: str, space: Any) -> Any:
    """Draw a value from one of Optuna's distributions."""
    kind = type(space).__name__
    if kind == "CategoricalDistribution":
        return trial.suggest_categorical(name, space.choices)
    if kind == "IntDistribution":
        return trial.suggest_int(name, space.low, space.high, step=space.step, log=space.log)
    if kind == "FloatDistribution":
        return trial.suggest_float(name, space.low, space.high, step=space.step, log=space.log)
    raise InputError(
        f"Expected a distribution of Optuna for {name!r}, but got {space!r}. Write FloatDistribution(0.01, 1)."
    )
