"""Prediction sets: fitted thresholds that make a set of classes of every row of probabilities."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.atomic import write_text
from surefoot.calibrators import Calibrator
from surefoot.errors import InputError
from surefoot.imported import received
from surefoot.places import fetched
from surefoot.prediction_sets._draws import Array, draws_of
from surefoot.prediction_sets._quantile import least_rows
from surefoot.prediction_sets._rows import check_probs, probs_of
from surefoot.registry import SETS
from surefoot.schema import Form, SplitName

_VALUES_AT_ONCE = 1 << 20  # rows × classes


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_limit(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


_KINDS: dict[str, Callable[[Any], bool]] = {  # what saved values have to be, whoever changed the file
    "n_classes": _is_whole,
    "seed": _is_whole,
    "coverage": lambda value: isinstance(value, float) and 0 < value < 1,
    "rows": lambda values: isinstance(values, list | tuple) and all(map(_is_whole, values)),
    "thresholds": lambda values: isinstance(values, list | tuple) and all(map(_is_limit, values)),
    "class_names": lambda values: isinstance(values, list | tuple) and all(isinstance(each, str) for each in values),
}


@dataclass(frozen=True)
class PredictionSets:
    """Sets of classes that hold the true one as often as was asked for, on rows like those they were fitted on.

    Attributes:
        method: The score with all its options, such as ``"raps:k_reg=2,lam=0.01,randomised=true"``.
        coverage: How often the true class is to be in the set.
        thresholds: A class is in the set if its score is at most this: one for all classes, or one per class. Infinite
            where there were too few rows.
        rows: How many rows each threshold rests on.
        n_classes: How many classes there are.
        fitted_on: Of which split these rows were.
        class_names: One per class; empty where they have none.
        seed: Draws the numbers of randomised scores, from each row's own probabilities.
        calibrator: What probabilities go through first; None where they are taken as they are.
        weighted: Whether rows counted differently.
        form: Of the predictions.

    Example:
        >>> sets = PredictionSets("lac", 0.9, (-0.25,), (99,), 3, "calibration")
        >>> sets.sets([[0.7, 0.25, 0.05]]).tolist(), sets.names([[0.7, 0.25, 0.05]])
        ([[True, True, False]], [['0', '1']])
    """

    method: str
    coverage: float
    thresholds: tuple[float, ...]
    rows: tuple[int, ...]
    n_classes: int
    fitted_on: SplitName
    class_names: tuple[str, ...] = ()
    seed: int = 0
    calibrator: Calibrator | None = None
    weighted: bool = False
    form: Form = "multiclass"

    @property
    def name(self) -> str:
        """The score without its options."""
        return SETS.parse(self.method).name

    @property
    def per_class(self) -> bool:
        """Whether every class has a threshold of its own."""
        return len(self.thresholds) > 1

    @property
    def n(self) -> int:
        """On how many rows they were fitted; rows that only options were chosen on do not count."""
        return sum(self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know: where there were too few rows, and what is left of the guarantee with weights."""
        found = []
        least, wanted = least_rows(self.coverage), f"{100 * self.coverage:g} %"
        few = [k for k, limit in enumerate(self.thresholds) if math.isinf(limit)]
        if few and not self.per_class:
            needed = "one of them counts too much" if self.weighted else f"at least {least} are needed"
            found.append(f"{self.n} rows are too few for sets of {wanted}: {needed}. Every set holds all classes.")
        elif few:
            shown = ", ".join(f"{self.class_name(k)} ({self.rows[k]})" for k in few[:5])
            shown += f" and {len(few) - 5} more" if len(few) > 5 else ""
            found.append(
                f"{len(few)} of {self.n_classes} classes have too few rows for {wanted}, at least {least} are needed, "
                f"and are in every set: {shown}."
            )
        if self.weighted:
            found.append(
                "Rows were weighted: the coverage is that of the rows that weights stand for, as far as weights are "
                "right and no new row has a larger one."
            )
        return tuple(found)

    def class_name(self, label: int) -> str:
        """Return the name of a class, or its number."""
        return self.class_names[label] if self.class_names else str(label)

    def sets(self, probs: Any = None, *, logits: Any = None) -> Array:
        """Return which classes are in the set of each row.

        Args:
            probs: Probabilities, shape ``(n, classes)``: an array, a tensor, a data frame or lists.
            logits: Logits instead.

        Returns:
            True for the classes in the set, shape ``(n, classes)``. A set can be empty, where the row is stranger than
            coverage asks for: whoever must answer takes the likeliest class, which can only raise the coverage.

        Raises:
            InputError: If these are no probabilities, or of another number of classes.
        """
        rows = check_probs(probs, logits, self.n_classes, self.form)
        found = np.empty(rows.shape, bool)
        limits = np.array(self.thresholds)
        for part in self._blocks(rows):
            ready = self._calibrated(rows[part])
            found[part] = self._scores(ready) <= limits
            if self.form == "choices":  # what a row does not have cannot be in its set
                found[part] &= rows[part] > -np.inf
        return found

    def names(self, probs: Any = None, *, logits: Any = None) -> list[list[str]]:
        """Return the names of the classes in each set, the likeliest first; their numbers where they have no names."""
        rows = check_probs(probs, logits, self.n_classes, self.form)
        order = np.argsort(-rows, axis=1, kind="stable")
        inside = np.take_along_axis(self.sets(logits=rows), order, axis=1)
        called = [self.class_name(k) for k in range(self.n_classes)]
        return [[called[k] for k in line[chosen]] for line, chosen in zip(order, inside, strict=True)]

    def _calibrated(self, logits: Array) -> Array:
        return probs_of(logits if self.calibrator is None else self.calibrator.logits(logits))

    def _scores(self, probs: Array) -> Array:
        return score(self.method, probs, self.seed)

    def _blocks(self, rows: Array) -> Iterator[slice]:
        step = max(1, _VALUES_AT_ONCE // self.n_classes)
        return (slice(start, start + step) for start in range(0, len(rows), step))

    def to_json(self) -> dict[str, Any]:
        """Write the sets as plain JSON values; an infinite threshold is null."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["thresholds"] = [None if math.isinf(limit) else limit for limit in self.thresholds]
        values["calibrator"] = None if self.calibrator is None else self.calibrator.to_json()
        return {"prediction_sets": values.pop("method"), **values}

    @staticmethod
    def from_json(values: Mapping[str, Any], *, trust: bool = False) -> PredictionSets:
        """Read back what :meth:`to_json` wrote.

        Args:
            values: The plain values; ``about`` is passed over.
            trust: Import a score of others that they name.

        Returns:
            The sets.

        Raises:
            InputError: If they are not those of prediction sets.
        """
        given = {key: value for key, value in values.items() if key not in ("prediction_sets", "about")}
        wanted = {field.name for field in dataclasses.fields(PredictionSets)} - {"method"}
        if "prediction_sets" not in values or set(given) != wanted:
            raise InputError(
                f"Expected saved prediction sets, but got {', '.join(map(str, values)) or 'nothing'}. Fit them again "
                "with surefoot conformal."
            )
        if odd := [key for key, is_right in _KINDS.items() if not is_right(given[key])]:
            raise InputError(
                f"Expected saved prediction sets, but {', '.join(odd)} cannot be right. Fit them again "
                "with surefoot conformal."
            )
        thresholds = tuple(math.inf if limit is None else float(limit) for limit in given["thresholds"])
        calibrator = None if given["calibrator"] is None else Calibrator.from_json(given["calibrator"])
        as_tuples = {key: tuple(given[key]) for key in ("rows", "class_names")}
        plain = {**given, **as_tuples, "thresholds": thresholds, "calibrator": calibrator}
        if len(thresholds) not in (1, plain["n_classes"]) or len(plain["rows"]) != len(thresholds):
            raise InputError(
                f"Expected one threshold, or one for each of {plain['n_classes']} classes, but got {len(thresholds)}. "
                "Fit the sets again."
            )
        with received("saved prediction sets", trust=trust):
            SETS.parse(str(values["prediction_sets"]))
        return PredictionSets(str(values["prediction_sets"]), **plain)

    def save(self, path: Path | str, about: Mapping[str, Any] | None = None) -> None:
        """Write the sets, with the calibrator where there is one, to a ``.json`` file.

        Args:
            path: Where to.
            about: What else to remember, such as the rows they were fitted on.

        Raises:
            InputError: If the name ends in anything else.
        """
        path = Path(path)
        if path.suffix != ".json":
            raise InputError(f"Expected a file name in .json, but got {path.name!r}. Choose one.")
        path.parent.mkdir(parents=True, exist_ok=True)
        more = {"about": dict(about)} if about else {}
        write_text(path, json.dumps({**self.to_json(), **more}, indent=1, ensure_ascii=False) + "\n")


def score(method: str, probs: Array, seed: int) -> Array:
    """Return the scores of all classes.

    Args:
        method: With its options.
        probs: Shape ``(n, classes)``.
        seed: Draws the numbers of randomised scores.

    Returns:
        Shape ``(n, classes)``.

    Raises:
        InputError: If a score of one's own returns anything else.
    """
    found = np.asarray(SETS.build(SETS.parse(method), probs, draws_of(probs, seed)), np.float64)
    if found.shape != probs.shape or np.isnan(found).any():
        raise InputError(
            f"Expected {method} to return a score for each class, {probs.shape}, but got {found.shape} or NaN. Return "
            "an array of the shape of probs."
        )
    return found


def load_sets(path: Path | str, *, trust: bool = False) -> PredictionSets:
    """Read prediction sets that were saved.

    Args:
        path: A ``.json`` file.
        trust: Import a score of others that it names.

    Returns:
        The sets: ``sets(probs)`` says which classes are in them.

    Raises:
        InputError: If the file holds none.
    """
    with fetched(path) as here:
        return _read(here, trust)[0]


def load_sets_about(path: Path | str, *, trust: bool = False) -> dict[str, Any]:
    """Read what was saved about prediction sets.

    Args:
        path: A ``.json`` file.
        trust: Import a score of others that it names.

    Returns:
        What :meth:`PredictionSets.save` was told; empty if nothing.

    Raises:
        InputError: If the file holds none.
    """
    with fetched(path) as here:
        return _read(here, trust)[1]


def _read(path: Path, trust: bool) -> tuple[PredictionSets, dict[str, Any]]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return PredictionSets.from_json(values, trust=trust), dict(values.get("about", {}))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
        raise InputError(f"Expected saved prediction sets, but {path.name} holds none ({error}). Fit them.") from error
