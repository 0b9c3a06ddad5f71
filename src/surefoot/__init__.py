"""surefoot: classifiers that know how sure to be.

The names below are the stable ones. They are resolved on first use, so that ``import surefoot`` and
``surefoot --help`` do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.calibrators.temperature import Temperature, fit_temperature
    from surefoot.losses.cross_entropy import CrossEntropy
    from surefoot.losses.label_smoothing import LabelSmoothing
    from surefoot.metrics.accuracy import accuracy
    from surefoot.metrics.brier import brier
    from surefoot.metrics.ece import ece
    from surefoot.metrics.nll import nll
    from surefoot.optim.csam import CSAM
    from surefoot.optim.plain import Plain
    from surefoot.optim.sam import SAM
    from surefoot.schema import LossTerms, Predictions, RunSpec, Split, Splits

__version__ = "0.1.0"

_HOME = {
    "CSAM": "optim.csam",
    "SAM": "optim.sam",
    "Plain": "optim.plain",
    "CrossEntropy": "losses.cross_entropy",
    "LabelSmoothing": "losses.label_smoothing",
    "LossTerms": "schema",
    "Predictions": "schema",
    "RunSpec": "schema",
    "Split": "schema",
    "Splits": "schema",
    "Temperature": "calibrators.temperature",
    "fit_temperature": "calibrators.temperature",
    "accuracy": "metrics.accuracy",
    "brier": "metrics.brier",
    "ece": "metrics.ece",
    "nll": "metrics.nll",
}

__all__ = [  # noqa: RUF022 - grouped as in _HOME
    "CSAM",
    "SAM",
    "Plain",
    "CrossEntropy",
    "LabelSmoothing",
    "LossTerms",
    "Predictions",
    "RunSpec",
    "Split",
    "Splits",
    "Temperature",
    "fit_temperature",
    "accuracy",
    "brier",
    "ece",
    "nll",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'surefoot' has no attribute {name!r}")
    value = getattr(import_module(f"surefoot.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *__all__])
