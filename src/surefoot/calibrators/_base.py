"""What all calibrators have in common: applying, comparing, writing and reading back, and the head of a network."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save
from torch import Tensor, nn

from surefoot.atomic import write_bytes, write_text
from surefoot.errors import InputError
from surefoot.json_values import is_number
from surefoot.places import fetched
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions, SplitName

Array = np.ndarray[Any, np.dtype[np.float64]]
_ROWS_AT_ONCE = 1 << 20
_NUMBERS = ("float", "int")  # how fields with one number are declared
_LARGEST = 1e30  # no fit finds a larger one, and repaired logits would not be numbers any more


class Calibrator(ABC):
    """A fitted calibrator. Subclasses are frozen dataclasses of numbers and float64 arrays.

    ``repair(values, logits)`` is the whole method: a pure function of the fields, as tensors, and of logits.
    """

    name: ClassVar[str]
    fitted_on: SplitName
    _kinds: ClassVar[dict[str, type[Calibrator]]] = {}

    def __init_subclass__(cls) -> None:
        """Remember the class by its name, so that it can be read back."""
        if "name" in vars(cls):  # those that others build on have none
            Calibrator._kinds[cls.name] = cls

    def __post_init__(self) -> None:
        """Make arrays float64 and read-only, and refuse a temperature that would turn the order of classes round."""
        for key, value in self._fields().items():
            if key == "temperature" and not value > 0:
                raise InputError(f"Expected a temperature above 0, but got {value}. Fit it again.")
            if isinstance(value, np.ndarray):
                frozen = np.array(value, np.float64)
                frozen.setflags(write=False)
                object.__setattr__(self, key, frozen)

    @staticmethod
    @abstractmethod
    def repair(values: Any, logits: Tensor) -> Tensor:
        """Return calibrated logits: their softmax are the calibrated probabilities.

        Args:
            values: Holds the fields of the calibrator as attributes, arrays as tensors.
            logits: Shape ``(n, classes)``.

        Returns:
            Shape ``(n, classes)``.
        """

    @property
    def n_parameters(self) -> int:
        """How many numbers were fitted."""
        fitted = (v for k, v in self._fields().items() if k not in ("edges", "smoothing"))
        numbers = (value for value in fitted if isinstance(value, float | np.ndarray))
        return sum(value.size if isinstance(value, np.ndarray) else 1 for value in numbers)

    def __call__(self, predictions: Predictions) -> Predictions:
        """Repair predictions for another split than the one it was fitted on."""
        repaired = self.logits(predictions.logits)
        return dataclasses.replace(predictions, logits=repaired, fitted_on=self.fitted_on)

    def logits(self, logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return calibrated logits of the same type, computed in float64."""
        values = SimpleNamespace(**{key: _tensor(value) for key, value in self._fields().items()})
        repaired = np.empty(logits.shape, logits.dtype if logits.dtype.kind == "f" else np.float64)
        rows = max(1, _ROWS_AT_ONCE // logits.shape[1])
        for start in range(0, len(logits), rows):
            part = torch.from_numpy(np.asarray(logits[start : start + rows], np.float64))
            repaired[start : start + rows] = self.repair(values, part).numpy()
        return repaired

    def probs(self, logits: np.ndarray[Any, Any]) -> Array:
        """Return calibrated probabilities in float64."""
        repaired = torch.from_numpy(self.logits(np.asarray(logits, np.float64)))
        result: Array = repaired.softmax(1).numpy()
        return result

    def module(self) -> Head:
        """Make a head that maps logits to calibrated logits, to be put behind a network."""
        return Head(self)

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]  # subclasses are dataclasses

    def __eq__(self, other: object) -> bool:
        """Return whether another calibrator does the same, number for number."""
        if type(self) is not type(other):
            return False
        mine, theirs = self._fields(), other._fields()
        return all(np.array_equal(mine[key], theirs[key]) for key in mine)

    def __hash__(self) -> int:
        """Hash by the numbers."""
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def to_json(self) -> dict[str, Any]:
        """Write the calibrator as plain JSON values."""
        values = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self._fields().items()}
        return {"calibrator": self.name, **values}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Calibrator:
        """Read back what :meth:`to_json` wrote, for any kind of calibrator.

        Args:
            values: The plain values; ``about`` is for people and passed over.

        Returns:
            The calibrator.

        Raises:
            InputError: If they are not those of a calibrator.
        """
        CALIBRATORS.load()
        kind = Calibrator._kinds.get(str(values.get("calibrator")))
        wanted = [field.name for field in dataclasses.fields(kind)] if kind else []  # type: ignore[arg-type]  # subclasses are dataclasses
        given = {key: value for key, value in values.items() if key not in ("calibrator", "about")}
        if kind is None or sorted(given) != sorted(wanted):
            raise InputError(
                f"Expected a saved calibrator, but got {values.get('calibrator')!r} with {', '.join(given)}. Known are "
                f"{', '.join(sorted(Calibrator._kinds))}. If it is your own, import its module first."
            )
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # subclasses are dataclasses
            if field.type in _NUMBERS and not is_number(given[field.name]):
                raise InputError(
                    f"Expected a number as {field.name} of a saved calibrator, but got {given[field.name]!r}. "
                    "Fit it again."
                )
        read = kind(**{key: np.asarray(v, np.float64) if isinstance(v, list) else v for key, v in given.items()})
        for name, value in read._fields().items():
            is_fitted = isinstance(value, float | int | np.ndarray) and name != "edges"  # which has padding
            factor = 1 / value if name == "temperature" else value
            if is_fitted and not np.all(np.abs(factor) <= _LARGEST):
                raise InputError(
                    f"Expected a saved calibrator whose {name} a fit could have found, but logits behind it would not "
                    "be numbers any more. The file is damaged: fit it again."
                )
        return read

    def save(self, path: Path | str, about: Mapping[str, Any] | None = None) -> None:
        """Write the calibrator to a ``.json`` or ``.safetensors`` file.

        Args:
            path: Where to.
            about: What else to remember, such as the rows it was fitted on: plain values for :func:`load_about`.

        Raises:
            InputError: If the name ends in anything else.
        """
        path = Path(path)
        more = {"about": dict(about)} if about else {}
        if path.suffix == ".json":
            write_text(path, json.dumps({**self.to_json(), **more}, indent=1) + "\n")
        elif path.suffix == ".safetensors":
            arrays = {key: value for key, value in self._fields().items() if isinstance(value, np.ndarray)}
            plain = {key: value for key, value in self._fields().items() if key not in arrays}
            header = {"calibrator": json.dumps({"calibrator": self.name, **plain, **more})}
            write_bytes(path, save({key: np.ascontiguousarray(v) for key, v in arrays.items()}, metadata=header))
        else:
            raise InputError(f"Expected a file name in .json or .safetensors, but got {path.name!r}. Choose one.")


def load(path: Path | str) -> Calibrator:
    """Read a calibrator that :meth:`Calibrator.save` wrote.

    Args:
        path: A ``.json`` or ``.safetensors`` file.

    Returns:
        The calibrator.

    Raises:
        InputError: If the file holds none.
    """
    with fetched(path) as here:
        return _read(here)[0]


def load_about(path: Path | str) -> dict[str, Any]:
    """Read what was saved about a calibrator.

    Args:
        path: A ``.json`` or ``.safetensors`` file.

    Returns:
        What :meth:`Calibrator.save` was told; empty if nothing.

    Raises:
        InputError: If the file holds no calibrator.
    """
    with fetched(path) as here:
        return _read(here)[1]


def _read(path: Path) -> tuple[Calibrator, dict[str, Any]]:
    try:
        if path.suffix == ".json":
            values = json.loads(path.read_text())
        else:
            with safe_open(path, framework="np") as file:
                values = json.loads((file.metadata() or {})["calibrator"])
            values |= {key: value.tolist() for key, value in load_file(path).items()}
        return Calibrator.from_json(values), dict(values.get("about", {}))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, OverflowError, SafetensorError) as error:
        raise InputError(f"Expected a saved calibrator, but {path.name} is none ({error}). Fit it again.") from error


class Head(nn.Module):
    """A calibrator at the end of a network: logits in, calibrated logits out. Nothing in it is trained.

    Args:
        calibrator: The fitted calibrator.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        self._repair = type(calibrator).repair
        for key, value in calibrator._fields().items():
            if isinstance(value, np.ndarray):
                self.register_buffer(key, torch.from_numpy(value.copy()))
            else:
                setattr(self, key, value)

    def forward(self, logits: Tensor) -> Tensor:
        """Return calibrated logits in the type of the logits; float64 inside, as when they are repaired as arrays."""
        return self._repair(self, logits.double()).to(logits.dtype)


def fit(method: str, predictions: Predictions) -> Calibrator:
    """Fit a calibrator by its name.

    Args:
        method: Registered, with options such as ``"histogram:n_bins=10"``, or your own as ``"mypkg.parts:fit_mine"``.
        predictions: Of the calibration split.

    Returns:
        The fitted calibrator.

    Raises:
        InputError: If it is none.
    """
    fitted = CALIBRATORS.build(CALIBRATORS.parse(method), predictions)
    if not isinstance(fitted, Calibrator):
        raise InputError(
            f"Expected {method} to return a Calibrator, but got {type(fitted).__name__}. Return a subclass of "
            "surefoot.calibrators.Calibrator."
        )
    return fitted


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
