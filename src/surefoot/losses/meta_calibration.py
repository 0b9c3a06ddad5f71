"""Meta-calibration: label smoothing, or weight decay, learned so that a step of the last layer calibrates."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from surefoot.errors import InputError, OptionError
from surefoot.losses._base import Batch, Loss, Scene, true_class
from surefoot.losses.dece import dece_of
from surefoot.modes import in_eval_mode
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits

Smoothing = Literal["pairs", "class", "scalar", "l2"]
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8  # Adam


@LOSSES.register("meta_calibration", reference="Bohdal et al. 2023, arXiv:2106.09613")
class MetaCalibration(Loss):
    """Label smoothing (or, by smoothing=l2, weight decay) learned on the way, so that held-out data are calibrated.

    Cross-entropy towards softened labels, or with a penalty on the last layer; how much is learned on the way.

    Before every step: a virtual SGD step of the last layer alone on the batch, CE + ½·DECE of a held-out batch
    behind it, and one Adam step of the smoothing on that. Features are those of eval mode. The smoothing is one
    number, one per class, or one per class with weights for where it goes (``"pairs"``; all weights start equal).

    With ``"l2"`` labels stay hard and Σ ω θ²/n is added, over all weights and biases θ of the last layer and for a
    batch of n; each has its own ω. They start at 0 and may become negative.

    Held-out batches are drawn from the calibration split, which a calibrator fitted later sees again.

    Args:
        smoothing: What is learned.
        rate: Adam's learning rate.
        weight: Of DECE in the held-out loss.

    Raises:
        OptionError: If the rate or the weight is negative.
    """

    amount: Tensor
    target: Tensor
    decay: Tensor
    n: Tensor
    first: Tensor
    second: Tensor
    steps: Tensor

    def __init__(self, *, smoothing: Smoothing = "pairs", rate: float = 1e-3, weight: float = 0.5) -> None:
        if not (rate >= 0 and weight >= 0):
            raise OptionError(f"Expected rate ≥ 0 and weight ≥ 0, but got {rate:g} and {weight:g}. Leave them out.")
        super().__init__()
        self.smoothing, self.rate, self.weight = smoothing, rate, weight
        self.register_buffer("amount", torch.zeros(0))  # mass taken from the true class: (1,) or (K,)
        self.register_buffer("target", torch.zeros(0))  # where it goes, before normalising: (K, K), zero diagonal
        self.register_buffer("decay", torch.zeros(0))  # ω of the last layer's weights, then of its biases
        self.register_buffer("n", torch.ones((), dtype=torch.long))  # examples of the present batch
        self.register_buffer("first", torch.zeros(0))  # Adam's moments of all of the above
        self.register_buffer("second", torch.zeros(0))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Start without smoothing, and make sure that the last layer can be found."""
        k = splits.n_classes
        features, layer = features_of(model, splits.train.inputs[:2])
        self.amount = torch.zeros({"l2": 0, "scalar": 1}.get(self.smoothing, k))
        self.target = torch.ones(k, k) if self.smoothing == "pairs" else torch.zeros(0)
        self.decay = torch.zeros(sum(p.numel() for p in layer.parameters()) if self.smoothing == "l2" else 0)
        size = self.amount.numel() + self.target.numel() + self.decay.numel()
        self.first, self.second = torch.zeros(size), torch.zeros(size)
        with torch.no_grad(), in_eval_mode(model):
            is_last = torch.allclose(layer(features), model(splits.train.inputs[:2]), atol=1e-6)
        if not is_last:
            raise InputError(
                f"Expected the last nn.Linear of {type(model).__name__} to give the logits, but it does not. "
                "Choose another network for meta_calibration."
            )
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy towards the labels as they are softened now."""
        log_probs = logits.log_softmax(-1)
        soft = soft_labels(self.amount, self.target, logits.shape[-1])[labels].to(logits.dtype)
        return LossTerms(-(soft * log_probs).sum(-1), log_py=true_class(log_probs, labels))

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return the cross-entropy, and the last layer's penalty where that is what is learned."""
        terms, logits = super().evaluate(model, batch)
        if not self.decay.numel():
            return terms, logits
        penalty = (self.decay * parameters_to_vector(last_linear(model).parameters()).square()).sum() / self.n
        return terms._replace(penalty=penalty), logits

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Learn the smoothing or the penalty by one step; the batch is left as it is."""
        self.n.fill_(len(batch))
        held_out = scene.splits.calibration
        rows = torch.randperm(len(held_out), generator=scene.generator)[: len(batch)]
        device = batch.inputs.device
        features, layer = features_of(model, batch.inputs)
        others, _ = features_of(model, held_out.inputs[rows].to(device))
        learned = [part.clone().requires_grad_() for part in (self.amount, self.target, self.decay)]
        amount, target, decay = learned
        with torch.enable_grad():
            soft = soft_labels(amount, target, layer.out_features)[batch.labels]
            logits = virtual_step(layer, features, soft, others, scene.lr, decay / self.n)
            labels = held_out.labels[rows].to(device)
            loss = F.cross_entropy(logits, labels) + self.weight * dece_of(logits, labels)
            wanted = [part for part in learned if part.numel()]
            grads = torch.autograd.grad(loss, wanted, materialize_grads=True)
        self._learn(torch.cat([grad.flatten() for grad in grads]))
        return batch

    def _learn(self, grad: Tensor) -> None:
        """Make one step of Adam and keep the smoothing where it makes sense."""
        self.steps += 1
        t = int(self.steps)
        self.first.mul_(BETA1).add_(grad, alpha=1 - BETA1)
        self.second.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        move = (self.first / (1 - BETA1**t)) / ((self.second / (1 - BETA2**t)).sqrt() + EPS)
        of_amount, of_target, of_decay = move.split([self.amount.numel(), self.target.numel(), self.decay.numel()])
        self.amount.sub_(self.rate * of_amount).clamp_(0, 0.5)
        self.target.sub_(self.rate * of_target.reshape(self.target.shape)).clamp_(min=0)
        self.decay.sub_(self.rate * of_decay)


def soft_labels(amount: Tensor, target: Tensor, n_classes: int) -> Tensor:
    """Return the softened label of each class.

    Args:
        amount: Mass taken from the true class, one or one per class; empty for none.
        target: Weights for where it goes, shape ``(K, K)``; empty for everywhere, the true class included.
        n_classes: K.

    Returns:
        Shape ``(K, K)``; rows sum to one.

    Example:
        >>> soft_labels(torch.tensor([0.2]), torch.zeros(0), 2)
        tensor([[0.9000, 0.1000],
                [0.1000, 0.9000]])
        >>> soft_labels(torch.tensor([0.2, 0.0]), torch.ones(2, 2), 2)
        tensor([[0.8000, 0.2000],
                [0.0000, 1.0000]])
    """
    hard = torch.eye(n_classes, dtype=amount.dtype, device=amount.device)
    if not amount.numel():
        return hard
    if target.numel():
        away = target * (1 - hard) + 1e-6 * (1 - hard)
        share = away / away.sum(-1, keepdim=True)
    else:
        share = torch.full_like(hard, 1 / n_classes)
    mass = amount.expand(n_classes)[:, None]
    return hard * (1 - mass) + share * mass


def features_of(model: nn.Module, inputs: Tensor) -> tuple[Tensor, nn.Linear]:
    """Return what the last linear layer of a network sees in eval mode, and that layer.

    Args:
        model: The network.
        inputs: A batch.

    Returns:
        Features without gradient, and the layer.
    """
    layer = last_linear(model)
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    try:
        with torch.no_grad(), in_eval_mode(model):
            model(inputs)
    finally:
        handle.remove()
    return seen[-1], layer


def last_linear(model: nn.Module) -> nn.Linear:
    """Return the last linear layer of a network.

    Args:
        model: The network.

    Returns:
        The layer.

    Raises:
        InputError: If the network has no linear layer.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InputError(
            f"Expected a network that ends in nn.Linear, but {type(model).__name__} has none. Choose another network."
        )
    return layers[-1]


def virtual_step(
    layer: nn.Linear, features: Tensor, soft: Tensor, others: Tensor, lr: float, decay: Tensor | None = None
) -> Tensor:
    """Return the logits of other examples behind one SGD step of a linear layer on softened labels.

    Args:
        layer: Stays as it is.
        features: Of the batch that the step is made on.
        soft: Its softened labels; gradient flows to them.
        others: Features of the other examples.
        lr: Learning rate of the step.
        decay: Coefficient of the square of each weight, then of each bias; none or empty for no penalty.

    Returns:
        Logits, shape ``(len(others), classes)``.
    """
    weight = layer.weight.detach()
    bias = torch.zeros_like(weight[:, 0]) if layer.bias is None else layer.bias.detach()
    error = (F.linear(features, weight, bias).softmax(-1) - soft) / len(features)
    of_weight, of_bias = error.T @ features, error.sum(0)
    if decay is not None and decay.numel():
        of_weight = of_weight + 2 * decay[: weight.numel()].view_as(weight) * weight
        if layer.bias is not None:
            of_bias = of_bias + 2 * decay[weight.numel() :] * bias
    return F.linear(others, weight - lr * of_weight, bias if layer.bias is None else bias - lr * of_bias)
