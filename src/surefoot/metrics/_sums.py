"""The streaming twin of every metric that is a function of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from surefoot.errors import InputError
from surefoot.metrics._input import Values, check
from surefoot.metrics._weights import check_weights, require_weights, without_zeros
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
        self._part = part = METRICS[name]
        if "sums" not in part.facts:
            raise InputError(
                f"Expected a metric that sums determine, but {name!r} needs all examples at once: "
                f"{part.facts.get('whole', 'it declares no sums')}. Call {name}(probs, labels)."
            )
        self._options = dict(part.spec(options).options)
        self._sums_of: SumsFunction = part.facts["sums"]
        self._finish: FinishFunction = part.facts["finish"]
        self._sums: Tensor | None = None
        self._weighted: bool | None = None  # None until a batch has said

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the name and the sums, for functions of a registry cannot be sent everywhere."""
        return _restored, (self._part.name, self._options, self._sums, self._weighted)

    @property
    def sums(self) -> Tensor:
        """The sums of everything seen so far, in float64; with weights bins have more rows (``_weights.py``)."""
        if self._sums is None:
            raise InputError("Expected at least one batch before compute(), but got none. Call update() first.")
        return self._sums

    def update(self, probs: Values, labels: Values, weights: Values | None = None) -> None:
        """Add a batch.

        Args:
            probs: Class probabilities, shape ``(n, classes)``; rows sum to one.
            labels: Class indices, shape ``(n,)``.
            weights: How much each row counts, shape ``(n,)``; of all batches or of none.
        """
        self._agree(weights is not None)
        if weights is None:
            self._add(self._sums_of(*check(probs, labels), **self._options))
            return
        require_weights(self._part)
        rows, numbers = check(probs, labels)
        counts = check_weights(weights, len(numbers), some=False).to(rows.device)
        rows, numbers, counts = without_zeros(counts, rows, numbers)
        if len(numbers):
            self._add(self._sums_of(rows, numbers, counts, **self._options))

    def _agree(self, weighted: bool) -> None:
        if self._weighted not in (None, weighted):
            raise InputError(
                "Expected weights of every batch or of none, but got both. Pass weights of 1 where all count."
            )
        self._weighted = weighted

    def _add(self, sums: Tensor) -> None:
        self._sums = sums if self._sums is None else self._sums + sums

    def merge(self, other: Stream) -> None:
        """Add what another stream of the same metric has seen, for example on another rank."""
        if other._weighted is not None:
            self._agree(other._weighted)
        if other._sums is not None:
            self._add(other._sums.clone())

    def compute(self) -> Tensor:
        """Return the metric on everything seen so far."""
        return self._finish(self.sums)


def _restored(name: str, options: dict[str, Any], sums: Tensor | None, weighted: bool | None) -> Stream:
    stream = Stream(name, **options)
    stream._sums, stream._weighted = sums, weighted
    return stream
