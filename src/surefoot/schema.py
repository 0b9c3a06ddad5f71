"""The words everyone shares: splits, predictions, loss terms, parts and run specifications.

Frozen dataclasses without behaviour beyond what follows from their own fields. Importing this module does not
import torch, so the report and ``surefoot --help`` stay light.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from surefoot.errors import InputError, SplitError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from surefoot.scaling import Scaling

SplitName = Literal["train", "calibration", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "calibration", "test")
LABELS_ARE = (
    "labels_are"  # the array in a file of predictions that says what its labels mean, whatever classes are called
)
CHECKPOINT_EVERY = 5.0  # seconds
Form = Literal["multiclass", "multilabel", "choices", "confidence"]  # see Predictions
OptionValue = bool | int | float | str | None


class Rows(NamedTuple):
    """Where examples stand in the files they come from: which part of the published data, and the rows there."""

    source: str
    numbers: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Split:
    """One part of a data set.

    Attributes:
        inputs: ``(n, *shape)`` as float32.
        labels: ``(n,)`` as int64.
        rows: Where the examples come from, if that is known.
    """

    inputs: Tensor
    labels: Tensor
    rows: Rows | None = None

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def first(self, n: int) -> Split:
        """Return the first examples; where inputs stay in their files, unread."""
        first: Any = getattr(type(self.inputs), "first", lambda inputs, n: inputs[:n])
        return Split(first(self.inputs, n), self.labels[:n])


@dataclass(frozen=True)
class Splits:
    """A data set, divided once and for all into train, calibration and test.

    Attributes:
        train: To train on.
        calibration: To fit calibrators and to choose on.
        test: To be scored on.
        class_names: One per class.
        fingerprint: Hash of the data as they were before scaling.
        scaling: How pixels or features were scaled; None where they stayed as they were, as tokens do.
    """

    train: Split
    calibration: Split
    test: Split
    class_names: tuple[str, ...]
    fingerprint: str
    scaling: Scaling | None = None

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train.inputs.shape[1:])

    def __getitem__(self, name: SplitName) -> Split:
        """Look a split up by its name."""
        split: Split = getattr(self, name)
        return split


@dataclass(frozen=True)
class Predictions:
    """Logits and labels of one split: what metrics, calibrators and audits are about.

    Attributes:
        logits: Shape ``(n, classes)``. What the softmax, or of ``multilabel`` the sigmoid, makes probabilities of.
        labels: Shape ``(n,)``, class numbers; of ``multilabel`` ``(n, classes)``, 1 where a label is true and else 0.
        split: Of which split the rows are.
        fitted_on: Which split a calibrator was fitted on, where one has been at work.
        class_names: One per class; empty where they have none.
        weights: How much each row counts, shape ``(n,)``; None where all count alike.
        form: ``multiclass``: one true class among the same classes in every row. ``multilabel``: each class is true or
            not by itself. ``choices``: the columns mean something else in every row, such as the answers to a question;
            where a row has fewer, its last logits are −∞. ``confidence``: two classes, wrong and right, of whatever was
            predicted: the second column is the logit of the confidence, the first is 0.
    """

    logits: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]
    split: SplitName
    fitted_on: SplitName | None = None
    class_names: tuple[str, ...] = ()
    weights: np.ndarray[Any, Any] | None = None
    form: Form = "multiclass"

    def __post_init__(self) -> None:
        """Refuse shapes that do not fit, and predictions calibrated on the very split they are for."""
        if self.fitted_on == self.split:
            raise SplitError(
                f"Expected a calibrator fitted on another split, but it was fitted on {self.split!r}, the one to "
                "be scored. Fit it on the calibration split."
            )
        wanted = self.logits.shape if self.form == "multilabel" else self.logits.shape[:1]
        if self.logits.ndim != 2 or self.labels.shape != wanted:
            labels = "(n, classes)" if self.form == "multilabel" else "(n,)"
            raise InputError(
                f"Expected logits (n, classes) and labels {labels}, but got {self.logits.shape} and "
                f"{self.labels.shape}. Pass one row of logits per label."
            )
        if self.weights is not None and self.weights.shape != self.logits.shape[:1]:
            raise InputError(
                f"Expected one weight per row, but got {self.weights.shape} for {len(self.logits)} rows. Pass (n,)."
            )

    def rows(self, chosen: Any) -> Predictions:
        """Return some of the rows: a slice, a mask or row numbers."""
        weights = None if self.weights is None else self.weights[chosen]
        return dataclasses.replace(self, logits=self.logits[chosen], labels=self.labels[chosen], weights=weights)


class LossTerms(NamedTuple):
    """What a loss gives an optimizer: one value per example, and what only the batch as a whole has.

    The loss of the batch is ``per_example.mean() + penalty``, with the mean over the examples that count. Its first
    dimension is that of the examples; a loss over tokens may have more.

    ``log_py`` is log p(true class) for each example; a loss other than cross-entropy supplies it, so that CSAM can
    weigh examples by p_y. Where it is missing, p_y is known only if ``per_example`` comes straight from torch's
    cross-entropy, without class weights or label smoothing.

    ``counted`` is True for the examples that count, of the same shape. Where it is missing, all do, except those that
    torch's cross-entropy has ignored.
    """

    per_example: Tensor
    penalty: Tensor | None = None
    log_py: Tensor | None = None
    counted: Tensor | None = None


@dataclass(frozen=True)
class PartSpec:
    """A part by name with every option filled in, for example ``csam`` with rho 0.2 and gamma 1."""

    name: str
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    source: str | None = None  # hash of the file, for parts named by import path

    def __str__(self) -> str:
        """Write the part the way the command line reads it: ``name:key=value,…``."""
        given = ",".join(f"{key}={show_option(value)}" for key, value in self.options.items())
        return f"{self.name}:{given}" if given else self.name


def show_option(value: OptionValue) -> str:
    """Write an option's value the way the command line reads it.

    Args:
        value: The value.

    Returns:
        Its text; numbers in the shortest form that reads back as the same number.

    Example:
        >>> show_option(2.0), show_option(True), show_option(5e-4), show_option(0.12345678)
        ('2', 'true', '0.0005', '0.12345678')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value)


@dataclass(frozen=True)
class MethodSpec:
    """A way to train: a loss, an optimizer, where that one wraps another its base, and perhaps an ensemble.

    ``tune`` says what is turned by the calibration split while training: ``auto`` or one name.
    """

    label: str
    loss: PartSpec
    optimizer: PartSpec
    base: PartSpec | None = None
    ensemble: PartSpec | None = None
    tune: str | None = None

    @property
    def name(self) -> str:
        """The method without its options: ``csam``, or ``focal + csam``, or ``mypkg.parts:my_loss + csam``."""
        parts = [part.name for part in (self.loss, self.optimizer, self.ensemble) if part]
        pieces = re.split(r"\s*\+\s*(?=[A-Za-z_])", self.label.strip())  # not the plus of 1e+3
        return " + ".join(_name_in(piece, parts) for piece in pieces)

    @property
    def options(self) -> dict[str, OptionValue]:
        """All options of all parts, the optimizer's winning over its base's where both have one."""
        base = self.base.options if self.base else {}
        ensemble = self.ensemble.options if self.ensemble else {}
        tune = {} if self.tune is None else {"tune": self.tune}
        return {**ensemble, **self.loss.options, **base, **self.optimizer.options, **tune}


def _name_in(piece: str, parts: list[str]) -> str:
    """Find the part that a piece of a method names; one named by import path has a colon in its name."""
    named = [name for name in parts if piece == name or piece.startswith(f"{name}:")]
    return max(named, key=len, default=piece.partition(":")[0])


@dataclass(frozen=True)
class RunSpec:
    """All that determines a run: the same spec on the same machine gives bitwise the same weights."""

    method: MethodSpec
    data: PartSpec
    model: PartSpec
    seed: int = 0
    epochs: int = 40
    batch_size: int = 128
    schedule: str = "cosine"
    device: str = "cpu"
    augment: tuple[PartSpec, ...] = ()
    channels_last: bool = False
    precision: str = "fp32"
    accumulate: int = 1
    compile: bool = False

    @property
    def augmentation(self) -> str:
        """What is done to training images, the way the command line reads it."""
        return " + ".join(map(str, self.augment)) or "none"

    def to_json(self) -> dict[str, Any]:
        """Write the spec as nested dictionaries of plain JSON values."""
        values = dataclasses.asdict(self)
        if self.method.tune is None:  # so that runs from before there was such a thing keep their names
            del values["method"]["tune"]
        for name in ("precision", "accumulate", "compile"):  # likewise
            if values[name] == getattr(RunSpec, name):
                del values[name]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunSpec:
        """Read back what :meth:`to_json` wrote."""
        method = dict(values["method"])
        for part in ("loss", "optimizer", "base", "ensemble"):
            method[part] = PartSpec(**method[part]) if method[part] else None
        parts = {key: PartSpec(**values[key]) for key in ("data", "model")}
        augment = tuple(PartSpec(**part) for part in values["augment"])
        return cls(**{**values, **parts, "method": MethodSpec(**method), "augment": augment})

    def run_id(self, fingerprint: str, version: str) -> str:
        """Name the run by what determines it: spec, data and package version.

        The method's label is left out: ``csam`` and ``csam:gamma=1`` are the same run.

        Args:
            fingerprint: Hash of the data.
            version: Version of the package.

        Returns:
            Twelve hexadecimal digits.
        """
        values = self.to_json()
        del values["method"]["label"]
        text = json.dumps([values, fingerprint, version], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Tracking:
    """What is measured while a run trains, by name; the run itself is the same bits without it.

    Attributes:
        trackers: As people name them, with their options: ``("gn_sharpness:every=5",)``.
        budget: Share of the training time to spend on them, or None: as much as their schedules take.
    """

    trackers: tuple[str, ...] = ()
    budget: float | None = None

    def __post_init__(self) -> None:
        """Refuse a budget that is no share."""
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise InputError(
                f"Expected the budget to be a share of training time above 0, but got {self.budget:g}. "
                "Write --track-budget 0.1"
            )

    def covers(self, other: Tracking) -> bool:
        """Return whether whoever asked for the other has all of it here."""
        return set(other.trackers) <= set(self.trackers) and (not other.trackers or other.budget == self.budget)

    def clashes(self, other: Tracking) -> list[str]:
        """Return the trackers that both ask for with different options."""
        own = {text.partition(":")[0]: text for text in self.trackers}
        return [text for text in other.trackers if own.get(text.partition(":")[0], text) != text]

    def joined(self, other: Tracking) -> Tracking:
        """Ask for what either asks for, so that several questions share one run; without a budget if one has none.

        A run has every tracker once: of two with the same name the other's is kept, see :meth:`clashes`.
        """
        trackers = tuple({text.partition(":")[0]: text for text in (*self.trackers, *other.trackers)}.values())
        budgets = {each.budget for each in (self, other) if each.trackers}
        return Tracking(trackers, budgets.pop() if len(budgets) == 1 else None)


UNTRACKED = Tracking()
