"""Every streaming metric as a ``torchmetrics.Metric``: ``ECE()``, ``NLL()``, ``ClasswiseECE(num_classes=10)``, ….

The classes are made from the registry, one for each metric that sums determine; the sums in float64 are its state,
which torchmetrics adds up over batches and ranks. So the value is the one on all examples at once.

Names follow the registry's: ``classwise_ece`` is ``ClasswiseECE``. :class:`StreamingMetric` takes any by its name.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from surefoot.errors import InputError, OptionError
from surefoot.metrics import Stream
from surefoot.registry import METRICS, Part

try:
    from torchmetrics import Metric
except ImportError as error:
    raise ImportError(
        "Expected torchmetrics to be installed, but it is not. Run pip install 'surefoot[torchmetrics]'."
    ) from error

Task = Literal["multiclass", "binary", "multilabel"]
Average = Literal["macro", "micro", "none"]
_SHORT = {"ece", "mce", "ce", "rms", "nll", "kce", "skce", "auroc", "aurc"}


class StreamingMetric(Metric):
    """One of surefoot's metrics over batches and ranks.

    Args:
        metric: Its registered name, such as ``"ece"``.
        task: ``"multiclass"``: probabilities (n, classes, …) and class numbers (n, …). ``"binary"``: P(positive) and 0
            or 1, both of any one shape. ``"multilabel"``: P(label) and 0 or 1, both (n, labels, …).
        num_classes: Needed where sums of every class are kept.
        num_labels: Needed for ``"multilabel"``.
        ignore_index: Entries with this label count nowhere, −100 for tokens, say.
        average: Of several labels, ``"macro"``: the mean of their values; ``"micro"``: the value of all entries as one
            set; ``"none"``: one value per label.
        **options: Those of the metric, such as ``n_bins=15``, and of ``torchmetrics.Metric``.

    Raises:
        InputError: If the metric needs all examples at once, or a number of classes or labels.

    Example:
        >>> metric = StreamingMetric("ece")
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1]))
        >>> metric.compute()
        tensor(0.2500, dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False

    def __init__(
        self,
        metric: str,
        task: Task = "multiclass",
        *,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        average: Average = "macro",
        **options: Any,
    ) -> None:
        part = METRICS[metric]
        own = {name: value for name, value in options.items() if name in part.options}
        super().__init__(**{name: value for name, value in options.items() if name not in own})
        if task not in ("multiclass", "binary", "multilabel"):
            raise OptionError(f'Expected task "multiclass", "binary" or "multilabel", but got {task!r}.')
        if average not in ("macro", "micro", "none"):
            raise OptionError(f'Expected average "macro", "micro" or "none", but got {average!r}.')
        if (task == "multilabel") != (num_labels is not None):
            raise OptionError('Expected num_labels for task="multilabel", and for no other. Say how many labels.')
        self.metric, self.own, self.task, self.average = metric, own, task, average
        self.ignore_index = ignore_index
        self.num_classes = self._classes(num_classes)
        like = self._sums_of_one(self.num_classes or 2)
        # States of the same name are shared in a MetricCollection where they are equal after one batch, so the name
        # says all that they depend on.
        of = "bins" if part.facts.get("bins") else metric
        said = [f"{name}={value}" for name, value in sorted(part.spec(own).options.items())]
        self.state = "/".join([of, *said, task, f"ignore={ignore_index}", f"classes={num_classes}"])
        self.add_state(self.state, like.new_zeros(num_labels or 1, *like.shape), "sum")
        self.add_state(f"{self.state}/rows", torch.zeros(num_labels or 1, dtype=torch.int64), "sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch: probabilities, never logits, and labels."""
        labels = self._entries(preds, target)
        sums, rows = getattr(self, self.state), getattr(self, f"{self.state}/rows")
        added, seen = torch.zeros_like(sums), torch.zeros_like(rows)
        for number, (probs, truth) in enumerate(labels):
            kept = (
                truth != self.ignore_index
                if self.ignore_index is not None
                else torch.ones_like(truth, dtype=torch.bool)
            )
            if bool(kept.any()):
                stream = Stream(self.metric, **self.own)
                stream.update(probs[kept], truth[kept])
                added[number], seen[number] = stream.sums, kept.sum()
        setattr(self, self.state, sums + added)
        setattr(self, f"{self.state}/rows", rows + seen)

    def compute(self) -> Tensor:
        """Return the metric on everything seen so far, by all ranks; NaN where nothing was."""
        sums, rows = getattr(self, self.state), getattr(self, f"{self.state}/rows")
        if self.average == "micro":
            sums, rows = sums.sum(0, keepdim=True), rows.sum(0, keepdim=True)
        finish = METRICS[self.metric].facts["finish"]
        missing = sums.new_tensor(float("nan"))
        values = torch.stack([
            finish(each.cpu()).to(sums) if n else missing for each, n in zip(sums, rows, strict=True)
        ])
        if self.task == "multilabel" and self.average == "none":
            return values
        return values.nanmean()

    def _classes(self, n: int | None) -> int | None:
        """Return how many classes there are; None where it does not matter."""
        if self.task != "multiclass":
            return 2
        if n is None and self._sums_of_one(2).shape != self._sums_of_one(3).shape:
            raise OptionError(f"Expected num_classes for {self.metric}, which keeps sums of every class. Say how many.")
        return n

    def _sums_of_one(self, n_classes: int) -> Tensor:
        stream = Stream(self.metric, **self.own)
        stream.update(torch.eye(n_classes, dtype=torch.float64)[:1], torch.tensor([0]))
        return stream.sums

    def _entries(self, preds: Tensor, target: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Turn a batch into rows of probabilities and class numbers, once for each label."""
        if self.task == "multiclass":
            if preds.ndim != target.ndim + 1 or self.num_classes not in (None, preds.shape[1]):
                classes = "classes" if self.num_classes is None else self.num_classes
                raise InputError(
                    f"Expected probabilities (n, {classes}, …) and labels (n, …), but got {tuple(preds.shape)} and "
                    f"{tuple(target.shape)}. Put the classes second."
                )
            return [(preds.movedim(1, -1).reshape(-1, preds.shape[1]), target.reshape(-1))]
        n_labels = len(getattr(self, self.state))
        if preds.shape != target.shape or (self.task == "multilabel" and preds.shape[1:2] != (n_labels,)):
            what = f"(n, {n_labels}, …)" if self.task == "multilabel" else "of one shape"
            raise InputError(
                f"Expected probabilities and labels {what}, but got {tuple(preds.shape)} and {tuple(target.shape)}."
            )
        if not bool(((preds >= 0) & (preds <= 1)).all()):  # written so that NaN fails
            raise InputError("Expected probabilities in [0, 1], but got others. Pass logits.sigmoid().")
        labels = [(preds, target)]
        if self.task == "multilabel":
            labels = list(zip(preds.unbind(1), target.unbind(1), strict=True))
        doubles = [(p.detach().double().reshape(-1), y.reshape(-1)) for p, y in labels]
        return [(torch.stack([1 - p, p], 1), y) for p, y in doubles]


def _class_name(name: str) -> str:
    return "".join(word.upper() if word in _SHORT else word.capitalize() for word in name.split("_"))


def _derive(part: Part) -> type[StreamingMetric]:
    """Make the class of one metric."""

    def __init__(self: StreamingMetric, task: Task = "multiclass", **options: Any) -> None:
        StreamingMetric.__init__(self, part.name, task, **options)

    better = part.facts.get("lower_is_better")
    low, high = part.facts.get("range", (None, None))
    own = ", ".join(part.options) or "no others"
    facts = {
        "__doc__": f"{part.summary}\n\nOptions are those of :class:`StreamingMetric`, and {own}.",
        "__module__": __name__,
        "__init__": __init__,
        "higher_is_better": None if better is None else not better,
        "plot_lower_bound": low,
        "plot_upper_bound": high if high != float("inf") else None,
    }
    return type(_class_name(part.name), (StreamingMetric,), facts)


_CLASSES = {_class_name(part.name): _derive(part) for part in METRICS if "sums" in part.facts}
_WHOLE = {_class_name(part.name): part for part in METRICS if "sums" not in part.facts}
globals().update(_CLASSES)  # where pickle looks for them
__all__ = ["StreamingMetric", *sorted(_CLASSES)]


def __getattr__(name: str) -> type[StreamingMetric]:
    """Say why there is no class of a metric; types are checked by it, too."""
    if name in _WHOLE:
        part = _WHOLE[name]
        raise AttributeError(
            f"Expected a metric that sums determine, but {part.name!r} needs all examples at once: "
            f"{part.facts.get('whole', 'it declares no sums')}. Keep them and call surefoot.metrics.{part.name}."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
