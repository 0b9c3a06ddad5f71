"""The Gauss–Newton matrix of a perceptron, folded into logit space: small, and with the same eigenvalues."""

from __future__ import annotations

import math

from torch import Tensor, nn

from surefoot.curvature.logit_hessian import softmax_product
from surefoot.curvature.objective import LossFunction, cross_entropy, mse
from surefoot.curvature.operator import Operator
from surefoot.curvature.perceptron import backward, forward, is_perceptron, record_layers
from surefoot.errors import InputError


class LogitGram(Operator):
    r"""The matrix :math:`\tfrac1n S^\top J J^\top S` of size nK, where :math:`H_z = SS^\top`.

    It shares all non-zero eigenvalues with the Gauss–Newton matrix :math:`\tfrac1n J^\top S S^\top J`. For a
    perceptron :math:`JJ^\top` is: backward through the layers, multiply by each layer's input Gram matrix, forward
    through the layers. A product costs n² · width instead of n · weights, so it pays up to n ≈ 2,000.

    Args:
        model: A perceptron.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``; not used, there for the common signature.
        loss: ``cross_entropy`` or ``mse``.

    Attributes:
        logits: Shape ``(n, classes)``.

    Raises:
        InputError: If the model is no perceptron, or the loss another one.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> matrix = LogitGram(model, torch.tensor([[1.0, 2.0]]), torch.tensor([0])).dense()
        >>> torch.linalg.eigvalsh(matrix)[-1]  # ‖x‖² · 2 · 0.5 · 0.5
        tensor(2.5000)
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        *,
        loss: LossFunction = cross_entropy,
    ) -> None:
        if not is_perceptron(model) or loss not in (cross_entropy, mse):
            raise InputError(
                "Expected a perceptron with cross-entropy or MSE, but got another network or loss. Use GaussNewton."
            )
        self.logits, self._layers = record_layers(model, inputs)
        n, k = self.logits.shape
        super().__init__(n * k, self.logits.dtype, self.logits.device)
        self._model, self._n = model, n
        self._roots = self.logits.softmax(-1).sqrt() if loss is cross_entropy else None
        self._grams = [layer.gram() for layer in self._layers]

    def root(self, u: Tensor) -> Tensor:
        """Return S u for logit-space rows: p^½ ∘ u − p (p^½ · u), or √(2/K) u for MSE."""
        if self._roots is None:
            return u * math.sqrt(2 / u.shape[-1])
        return self._roots * (u - self._roots * (self._roots * u).sum(-1, keepdim=True))

    def root_transposed(self, w: Tensor) -> Tensor:
        """Return Sᵀ w for logit-space rows: p^½ ∘ w − p^½ (p · w)."""
        if self._roots is None:
            return w * math.sqrt(2 / w.shape[-1])
        return self._roots * (w - (self._roots.square() * w).sum(-1, keepdim=True))

    def _product(self, v: Tensor) -> Tensor:
        w = self.root(v.view(self._n, -1))
        pairs = zip(self._grams, backward(self._layers, w), strict=True)
        moved = forward(self._layers, [gram @ delta for gram, delta in pairs])
        return (self.root_transposed(moved) / self._n).reshape(-1)

    def rayleigh(self, u: Tensor, value: float, others: Tensor) -> float:
        r"""Return :math:`v^\top A v / v^\top v` on other examples, with v = Jᵀ S u never formed.

        J of the others times Jᵀ of the probe is, layer by layer, the inner products of what enters both times the
        cotangents that arrive; and v·v = n λ u·u.

        Args:
            u: An eigenvector here.
            value: Its eigenvalue λ.
            others: The other inputs, shape ``(m, *shape)``.

        Returns:
            The quotient.
        """
        logits, layers = record_layers(self._model, others)
        deltas = backward(self._layers, self.root(u.view(self._n, -1)))
        pairs = zip(layers, self._layers, deltas, strict=True)
        moved = forward(layers, [there.gram(here.inputs) @ delta for here, there, delta in pairs])
        pushed = moved * 2 / logits.shape[1] if self._roots is None else softmax_product(logits.softmax(-1), moved)
        return ((moved * pushed).sum() / len(others) / (self._n * value * u.square().sum())).item()

    def start(self, labels: Tensor) -> Tensor:
        """Return a first vector for Lanczos: the residuals p − y of the examples, which pull back to the gradient.

        Args:
            labels: Shape ``(n,)``.

        Returns:
            Shape ``(n · classes,)``.
        """
        slope = self.logits.softmax(-1) - nn.functional.one_hot(labels, self.logits.shape[1]).to(self.logits)
        return self.root_transposed(slope).reshape(-1)
