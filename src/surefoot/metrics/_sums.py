"""The streaming twin of every metric that is a function of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from surefoot.errors import InputError
from surefoot.metrics._input import Values, check
from surefoot.registry import METRICS

SumsFunction = Callable[..., Tensor]
FinishFunction = Callable[[Tensor], Tensor]


class Stream:
    """A metric over batches: the same number as on all examples at once, from sums in float64.

    Args:
        name: A registered metric.
        **options: Its options.

    Example:
        >>> from torch import tensor
        >>> stream = Stream("accuracy")
        >>> stream.update(tensor([[0.9, 0.1]]), tensor([0]))
        >>> stream.update(tensor([[0.8, 0.2]]), tensor([1]))
        >>> stream.compute()
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(self, name: str, **options: Any) -> None:
        part = METRICS[name]
        if "sums" not in part.facts:
            raise InputError(
                f"Expected a metric that sums determine, but {name!r} needs all examples at once: "
                f"{part.facts.get('whole', 'it declares no sums')}. Call {name}(probs, labels)."
            )
        self._options = dict(part.spec(options).options)
        self._sums_of: SumsFunction = part.facts["sums"]
        self._finish: FinishFunction = part.facts["finish"]
        self._sums: Tensor | None = None

    @property
    def sums(self) -> Tensor:
        """The sums of everything seen so far, in float64."""
        if self._sums is None:
            raise InputError("Expected at least one batch before compute(), but got none. Call update() first.")
        return self._sums

    def update(self, probs: Values, labels: Values) -> None:
        """Add a batch."""
        sums = self._sums_of(*check(probs, labels), **self._options)
        self._sums = sums if self._sums is None else self._sums + sums

    def merge(self, other: Stream) -> None:
        """Add what another stream of the same metric has seen, for example on another rank."""
        if other._sums is not None:
            self._sums = other._sums.clone() if self._sums is None else self._sums + other._sums

    def compute(self) -> Tensor:
        """Return the metric on everything seen so far."""
        return self._finish(self.sums)
