"""What rows and columns are, and which questions can be asked of them: one place that tells the forms apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, get_args

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.metric_keys import read_metric
from surefoot.metrics import Stream, top_label
from surefoot.metrics._binning import bin_sums
from surefoot.metrics._wide import OF_WIDE, WideRows
from surefoot.options import one_of
from surefoot.registry import Part
from surefoot.schema import Form
from surefoot.sources._multilabel import has_several
from surefoot.sources.names import Kind
from surefoot.sources.source import Raw, Source

FORMS: tuple[Form, ...] = get_args(Form)
MOST_CLASSES = 10_000  # for which tables over classes are kept
Top = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

CALIBRATORS_OF: dict[Form, tuple[str, ...]] = {
    "choices": ("temperature", "ets"),
    "confidence": ("temperature", "platt", "beta", "isotonic"),
    "multilabel": ("temperature", "platt"),
}
_WHY: dict[Form, str] = {
    "choices": "the columns mean something else in every row, so there are no classes to compare",
    "confidence": "a confidence says how sure a prediction is, and of no classes",
    "multilabel": "each label is true or not by itself, so that no class competes with another",
}


def check_form(text: str, where: str) -> Form:
    """Read a form that somebody typed.

    Args:
        text: One of ``FORMS``.
        where: Who says so, for messages.

    Returns:
        The form.

    Raises:
        InputError: If there is no such form.
    """
    return one_of(text, FORMS, where)


def form_of(source: Source, first: Raw) -> Form:
    """Tell the form from what was read: lists of different lengths are choices of their own in every row.

    Args:
        source: Where the rows are from; what its file says counts first.
        first: The first rows.

    Returns:
        The form.

    Raises:
        InputError: If classes have names, but rows have different lengths.
    """
    if source.form == "multiclass" and has_several(first):
        return "multilabel"
    if source.form != "multiclass" or first.counts is None:
        return source.form
    if source.class_names:
        raise InputError(
            f"Expected as many scores in every row as there are class names, but rows have {first.counts.min()} to "
            f"{first.counts.max()} in {source.where}. Complete the short ones, or leave the class names out."
        )
    return "choices"


def has_classes(form: Form, n_classes: int) -> bool:
    """Return whether a column stands for the same class in every row, and tables over classes can be kept."""
    return form == "multiclass" and n_classes <= MOST_CLASSES


def is_wide(kind: Kind | None, form: Form, n_classes: int, means: Iterable[Part] = ()) -> bool:
    """Return whether rows are logits over a vocabulary, of which the softmax need not be written down.

    Args:
        kind: Logits or probabilities.
        form: Of the predictions.
        n_classes: How many classes there are.
        means: Metrics that are wanted as means over rows; others than those of ``OF_WIDE`` need every probability.

    Returns:
        Whether :func:`~surefoot.metrics._wide.wide_rows` is enough.
    """
    wide = kind == "logits" and form == "multiclass" and not has_classes(form, n_classes)
    return wide and all(part.name in OF_WIDE for part in means)


def fitting(keys: Sequence[str], form: Form, n_classes: int, *, asked: bool) -> tuple[str, ...]:
    """Choose the metrics that can be computed of a form.

    Args:
        keys: Of the metrics.
        form: Of the predictions.
        n_classes: How many classes there are.
        asked: Whether somebody asked for exactly these.

    Returns:
        Those that fit.

    Raises:
        InputError: If one that was asked for does not.
    """
    found = [key for key in keys if _fits(read_metric(key)[0], form, n_classes)]
    if asked and len(found) < len(keys):
        lost = next(key for key in keys if key not in found)
        why = _WHY.get(form) or f"a table over {n_classes:,} classes is not kept"
        raise InputError(f"Expected metrics of this form ({form}), but got {lost!r}: {why}. Leave it out.")
    return tuple(found)


def _fits(part: Part, form: Form, n_classes: int) -> bool:
    of_top = "top" in part.facts
    if form == "multiclass":
        return n_classes <= MOST_CLASSES or of_top or "each" in part.facts
    if form == "choices":
        return of_top or "each" in part.facts
    return part.name in ("nll", "brier") or (of_top and form == "confidence")


def is_mean(part: Part, form: Form) -> bool:
    """Return whether a metric is a mean over rows; of a confidence only where no class is looked for."""
    return "each" in part.facts and (form != "confidence" or part.name in ("nll", "brier"))


def scale_of(name: str, form: Form) -> float:
    """Return by what a loss is multiplied: (confidence − right)² is half of the squared distance over two columns."""
    return 0.5 if form == "confidence" and name == "brier" else 1.0


def check_calibrator(name: str, form: Form) -> None:
    """Refuse a calibrator that a form has no use for.

    Args:
        name: The calibrator, perhaps with options.
        form: Of the predictions.

    Raises:
        InputError: If it does not fit.
    """
    known = CALIBRATORS_OF.get(form)
    if known is not None and name.partition(":")[0] not in (*known, "none"):
        raise InputError(f"Expected {' or '.join(known)} for {form}, but got {name!r}: {_WHY[form]}. Choose one.")


def of_confidence(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the confidence itself, not that of the likelier column, and whether it was right.

    Args:
        probs: Shape ``(n, 2)``: of being wrong and of being right.
        labels: 1 where it was right.

    Returns:
        Two tensors of shape ``(n,)``.

    Example:
        >>> from torch import tensor
        >>> of_confidence(tensor([[0.75, 0.25]]), tensor([0]))
        (tensor([0.2500]), tensor([False]))
    """
    return probs[:, 1], labels == 1


class Bins(Protocol):
    """Sums over bins of the confidence that batches are added to."""

    @property
    def sums(self) -> Tensor:
        """Shape ``(3, n_bins)``: count, confidence, right."""

    def update(self, probs: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch."""

    def merge(self, other: Any) -> None:
        """Add what others of the same kind have seen."""


class ConfidenceBins:
    """Bins of equal width of the confidence itself.

    Args:
        n_bins: Number of bins.
    """

    def __init__(self, n_bins: int) -> None:
        self.sums = torch.zeros(3, n_bins, dtype=torch.float64)

    def update(self, probs: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch; all of them have weights, or none."""
        sums = bin_sums(*of_confidence(probs, labels), self.sums.shape[1], weights)
        self._add(sums)

    def merge(self, other: ConfidenceBins) -> None:
        """Add what others have seen; all of it has weights, or none."""
        if bool(other.sums.any()):
            self._add(other.sums)

    def _add(self, sums: Tensor) -> None:
        self.sums = self.sums + sums if self.sums.shape == sums.shape else sums


def bins_of(form: Form, n_bins: int, *, wide: bool = False) -> Bins:
    """Return empty bins of the confidence; of wide rows they take :func:`as_confidence`, as those of confidences do."""
    return ConfidenceBins(n_bins) if wide or form == "confidence" else Stream("ece", n_bins=n_bins)


def as_confidence(rows: WideRows) -> tuple[Tensor, Tensor]:
    """Return wide rows as confidences: two columns, of being wrong and of being right, and 1 where it was right."""
    return torch.stack([1 - rows.confidence, rows.confidence], 1), rows.correct.long()


def top_of(form: Form) -> Top:
    """Return what finds each row's confidence and whether it is right."""
    return of_confidence if form == "confidence" else top_label
