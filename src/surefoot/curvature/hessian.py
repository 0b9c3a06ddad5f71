"""The Hessian of the mean loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surefoot.curvature.objective import LossFunction, Weights, chunks, cross_entropy, still, total_loss
from surefoot.curvature.operator import Operator


@dataclass
class _RecordedGradient:
    """The recorded gradient of one chunk, ready to be differentiated again."""

    loss: Tensor
    grads: tuple[Tensor | None, ...]


class Hessian(Operator):
    r"""Hessian :math:`\nabla^2 L(\theta)` of the mean loss over a data set or a batch, at the weights as they are now.

    The gradient is recorded once with its graph; a product differentiates it again (double backward), for about the
    cost of one gradient. Gradient and loss come with the construction, at no further cost.

    Args:
        model: Any module; it is held in evaluation mode during construction and products, then put back.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        loss: One value per example, or ``LossTerms``.
        chunk: Rows per chunk; None for all at once.
        cache: Keep the graphs of all chunks between products: faster, memory for ``n`` rows of activations. Without
            it every product records anew, with memory for one chunk.

    Attributes:
        loss: The mean loss.
        gradient: Its gradient, flat.

    Example:
        >>> model = nn.Linear(1, 2, bias=False)  # softmax regression: p (1 − p) [[1, −1], [−1, 1]] x²
        >>> _ = nn.init.zeros_(model.weight)
        >>> Hessian(model, torch.tensor([[2.0]]), torch.tensor([0])).dense()
        tensor([[ 1., -1.],
                [-1.,  1.]])
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        *,
        loss: LossFunction = cross_entropy,
        chunk: int | None = None,
        cache: bool = True,
    ) -> None:
        self._weights = Weights(model)
        super().__init__(self._weights.d, self._weights.dtype, self._weights.device)
        self._model, self._loss = model, loss
        self._n = len(labels)
        self._chunks = chunks(inputs, labels, chunk)
        self._recorded: list[_RecordedGradient] = []
        self.loss = 0.0
        self.gradient = torch.zeros(self._weights.d, dtype=self.dtype, device=self.device)
        with still(model):
            for pair in self._chunks:
                recorded = self._record(*pair)
                self.loss += recorded.loss.item()
                self.gradient += self._weights.flat(recorded.grads)
                if cache:
                    self._recorded.append(recorded)

    def _record(self, inputs: Tensor, labels: Tensor) -> _RecordedGradient:
        loss = total_loss(self._loss, self._model(inputs), labels, self._n)
        return _RecordedGradient(
            loss, torch.autograd.grad(loss, self._weights.params, create_graph=True, allow_unused=True)
        )

    def _product(self, v: Tensor) -> Tensor:
        result = torch.zeros_like(v)
        parts = self._weights.parts(v)
        with still(self._model):
            for recorded in self._recorded or (self._record(*pair) for pair in self._chunks):
                live = [(grad, part) for grad, part in zip(recorded.grads, parts, strict=True) if grad is not None]
                result += self._weights.pull([grad for grad, _ in live], [part for _, part in live])
        return result
