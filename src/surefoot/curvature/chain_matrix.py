"""Gauss–Newton matrix and Hessian of a chain of linear layers, multiplied layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import linear

from surefoot.curvature.chain import Layer, backward, is_trained
from surefoot.curvature.logit_hessian import logit_gradient, logit_product
from surefoot.curvature.objective import LossFunction
from surefoot.curvature.operator import Operator

Part = tuple[Tensor | None, Tensor | None]  # what a vector holds for a layer's weights and biases; None where frozen


class ChainMatrix(Operator):
    r"""The curvature of the mean loss in the weights of a chain, from what :func:`~.chain.layers` kept.

    With V the part of a vector that belongs to a layer's weights W, x its inputs and δ the loss's gradient in its
    outputs, the outputs move by :math:`\dot u = xV^\top + \dot x W^\top`, and the product's part is
    :math:`\dot\delta^\top x + \delta^\top \dot x`, where :math:`\dot\delta` comes back from
    :math:`\tfrac1n H_z \dot z` through :math:`\dot\delta W + \delta V` and the activations' slopes and bends. Without
    the terms in δ it is the Gauss–Newton product. Nothing is multiplied that autograd would only throw away.

    The first layer's own weights are never used, so its inputs may be given in fewer directions than the layer has:
    the matrix is then restricted to changes of the first weights along those.

    Args:
        found: The layers, with bends where the Hessian is wanted.
        logits: What they end in, shape ``(n, classes)``.
        labels: Shape ``(n,)``.
        loss: One value per example, or ``LossTerms``.
        gauss_newton: Whether to leave out the second derivative of the chain itself.

    Attributes:
        gradient: The loss's gradient, flat, in the order of the layers, weights before biases.
        delta: How the last product moved δ of the first layer, shape ``(n, fan_out)``.
    """

    def __init__(
        self, found: list[Layer], logits: Tensor, labels: Tensor, *, loss: LossFunction, gauss_newton: bool
    ) -> None:
        self._found = found
        self._middle = logit_product(loss, logits, labels, len(labels))
        deltas = backward(found, logit_gradient(loss, logits, labels, len(labels)))
        self.gradient = self._flat([(d.T @ layer.inputs, d.sum(0)) for layer, d in zip(found, deltas, strict=True)])
        self.delta = deltas[0]
        super().__init__(len(self.gradient), logits.dtype, logits.device)
        self._deltas: list[Tensor] | None = None if gauss_newton else deltas
        self._bent: list[Tensor | None] = []
        if not gauss_newton:
            before = zip(found[:-1], found[1:], deltas[1:], strict=True)
            self._bent = [_bent(layer, after, delta) for layer, after, delta in before]

    def _flat(self, images: list[Part]) -> Tensor:
        """Join what belongs to trainable weights and biases."""
        kept: list[Tensor] = []
        for layer, image in zip(self._found, images, strict=True):
            own = (layer.linear.weight, layer.linear.bias)
            kept += [t.reshape(-1) for p, t in zip(own, image, strict=True) if is_trained(p) and t is not None]
        return torch.cat(kept)

    def _parts(self, v: Tensor) -> Iterator[Part]:
        """Cut a vector into the layers' weights and biases."""
        at = 0
        for layer in self._found:
            weight = bias = None
            fan_out, fan_in = layer.linear.out_features, layer.inputs.shape[1]
            if is_trained(layer.linear.weight):
                weight = v[at : at + fan_out * fan_in].view(fan_out, fan_in)
                at += fan_out * fan_in
            if is_trained(layer.linear.bias):
                bias = v[at : at + fan_out]
                at += fan_out
            yield weight, bias

    def _product(self, v: Tensor) -> Tensor:
        parts = list(self._parts(v))
        entering, leaving = self._forward(parts)
        delta = self._found[-1].back(self._middle(self._found[-1].back(leaving[-1])))
        images: list[Part] = []
        for at in range(len(self._found) - 1, -1, -1):
            layer, moved = self._found[at], entering[at]
            image = delta.T @ layer.inputs
            if self._deltas is not None and moved is not None:
                image.addmm_(self._deltas[at].T, moved)
            images.append((image, delta.sum(0)))
            if at > 0:
                delta = self._back(at, delta, parts[at][0], leaving[at - 1])
        self.delta = delta
        return self._flat(images[::-1])

    def _forward(self, parts: list[Part]) -> tuple[list[Tensor | None], list[Tensor]]:
        """Return how the inputs and the outputs of every layer move; those of the first layer enter unmoved."""
        entering: list[Tensor | None] = [None]
        leaving: list[Tensor] = []
        for layer, (weight, bias) in zip(self._found, parts, strict=True):
            moved = entering[-1]
            if weight is not None:
                out = linear(layer.inputs, weight, bias)
            else:
                out = layer.inputs.new_zeros(len(layer.inputs), layer.linear.out_features)
                out = out if bias is None else out + bias
            if moved is not None:
                out = out.addmm_(moved, layer.linear.weight.detach().T)
            leaving.append(out)
            entering.append(layer.back(out))
        return entering[:-1], leaving

    def _back(self, at: int, delta: Tensor, weight: Tensor | None, moved: Tensor) -> Tensor:
        """Carry a layer's moved δ back to the outputs of the layer before it."""
        carried = delta @ self._found[at].linear.weight.detach()
        if self._deltas is not None and weight is not None:
            carried.addmm_(self._deltas[at], weight)
        slope, bent = self._found[at - 1].slope, self._bent[at - 1] if self._bent else None
        if slope is not None:
            carried.mul_(slope)
        return carried if bent is None else carried.addcmul_(bent, moved)


def _bent(layer: Layer, after: Layer, delta: Tensor) -> Tensor | None:
    """Return the activation's second derivative times the gradient that arrives there; None where it is straight."""
    return None if layer.bend is None else layer.bend * (delta @ after.linear.weight.detach())
