"""Margins, their gradients with respect to inputs, and attacks, in units of the inputs' own range."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.losses._base import true_class
from surefoot.modes import in_eval_mode
from surefoot.schema import Splits

Aim = Literal["ce", "margin"]
GRADIENT_PASSES = 1.5  # what an input gradient and its double backward add to a pass, roughly


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """Return each example's margin z_y − max_{j≠y} z_j.

    Args:
        logits: Shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Shape ``(n,)``; negative where the prediction is wrong. Where several others tie, the first one counts.

    Example:
        >>> margins(torch.tensor([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]]), torch.tensor([0, 1]))
        tensor([ 1., -2.])
    """
    others = logits.masked_fill(F.one_hot(labels, logits.shape[-1]).bool(), -torch.inf)
    runner_up = others.argmax(-1)  # an index, so that it is held fixed
    return true_class(logits, labels) - true_class(logits, runner_up)


class InputRange(nn.Module):
    """Where inputs live: between the smallest and the largest training value of each channel.

    Radii and gradients are measured in this range, so that eps = 8/255 means 8 grey levels also for inputs that
    have been standardised. Without training data the range is unbounded and the unit is 1.
    """

    low: Tensor
    high: Tensor
    unit: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.tensor(-torch.inf))
        self.register_buffer("high", torch.tensor(torch.inf))
        self.register_buffer("unit", torch.tensor(1.0))

    def fit(self, splits: Splits) -> None:
        """Take the range of each channel, or of each feature of a vector, from the training split."""
        inputs = splits.train.inputs
        rest = [dim for dim in range(inputs.ndim) if dim != 1]
        self.low, self.high = inputs.amin(rest, keepdim=True), inputs.amax(rest, keepdim=True)
        self.unit = self.high - self.low

    def attack(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, *, eps: float, step: float, n: int, aim: Aim = "ce"
    ) -> Tensor:
        """Climb the loss by n sign steps within an l∞ ball, from the inputs themselves, in eval mode.

        Args:
            model: The network.
            inputs: Where to start.
            labels: The true classes.
            eps: Radius of the ball.
            step: Length of a step.
            n: Number of steps.
            aim: Raise the cross-entropy, or lower the margin.

        Returns:
            The inputs found, without gradient.
        """
        start = inputs.detach()
        x = start
        with torch.enable_grad(), in_eval_mode(model):
            for _ in range(n):
                x = x.detach().requires_grad_()
                logits = model(x)
                loss = F.cross_entropy(logits, labels, reduction="sum")
                if aim == "margin":
                    loss = -margins(logits, labels).sum()
                (grad,) = torch.autograd.grad(loss, x)
                x = start + (x + step * self.unit * grad.sign() - start).clamp(-eps * self.unit, eps * self.unit)
                x = x.clamp(self.low, self.high)
        return x.detach()

    def margin_gradient(self, logits: Tensor, labels: Tensor, inputs: Tensor, *, create_graph: bool = True) -> Tensor:
        """Return the gradient of each example's margin with respect to its own input, the runner-up held fixed.

        With BatchNorm in training mode an example's margin depends on the other examples; what is given is then
        the gradient of the sum of all margins.

        Args:
            logits: Of the inputs, with a graph that leads to them.
            labels: The true classes.
            inputs: Require a gradient.
            create_graph: Whether the gradient will be differentiated in turn.

        Returns:
            Shape ``(n, features)``.
        """
        (grad,) = torch.autograd.grad(margins(logits, labels).sum(), inputs, create_graph=create_graph)
        return (grad * self.unit).flatten(1)


def kl(logits: Tensor, others: Tensor) -> Tensor:
    """Return KL(p ‖ q) of each row, for p and q the softmax of two sets of logits.

    Example:
        >>> kl(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.])
    """
    log_p, log_q = logits.log_softmax(-1), others.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)
