"""Losses around losses: a batch for several members, and the price of a posterior."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.ensembles._layers import RandomLayer
from surefoot.ensembles._mean import log_mean_probs
from surefoot.errors import InputError
from surefoot.losses._base import Batch, Loss, Scene
from surefoot.losses.meta_calibration import MetaCalibration
from surefoot.schema import LossTerms

Sharing = Literal["repeat", "divide"]


class LossWrapper(Loss):
    """Another loss as it is; abstract.

    Args:
        inner: The other loss.
    """

    def __init__(self, inner: Loss) -> None:
        super().__init__()
        self.inner = inner

    @property
    def passes(self) -> float:
        """What the inner loss costs."""
        return self.inner.passes

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the inner loss of logits and labels."""
        terms: LossTerms = self.inner(logits, labels)
        return terms

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Let the inner loss draw."""
        return self.inner.prepare(model, batch, scene)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Let the inner loss run the network."""
        return self.inner.evaluate(model, batch)

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Let the inner loss remember."""
        self.inner.observe(batch, outputs)

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Let the inner loss end its epoch."""
        self.inner.epoch_end(model, scene)


def innermost(loss: Loss) -> Loss:
    """Return the method's own loss, which logits and labels determine."""
    while isinstance(loss, LossWrapper):
        loss = loss.inner
    return loss


class OfMembers(LossWrapper):
    """A loss of members that share a network, each of which sees examples of its own.

    The inner loss is given a batch of (example, member) pairs, member by member, and the network inside the
    ensemble, whose layers know whose turn it is. Optimizers may take such a batch apart as they like.

    Args:
        inner: The method's loss.
        members: M.
        sharing: ``"repeat"`` shows all examples to all members, ``"divide"`` gives each example to one of them.
    """

    def __init__(self, inner: Loss, members: int, sharing: Sharing) -> None:
        super().__init__(inner)
        self.members, self.sharing = members, sharing

    @property
    def passes(self) -> float:
        """As many as the batch is repeated, times what the inner loss costs."""
        return self.inner.passes * (self.members if self.sharing == "repeat" else 1)

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Give each example to all members, or to one; then let the inner loss draw for the pairs."""
        n = len(batch)
        if self.sharing == "repeat":
            batch = batch[torch.arange(n, device=batch.labels.device).repeat(self.members)]
            n = len(batch)
        member = torch.arange(n, device=batch.labels.device) * self.members // n
        with model.assigned(member):  # type: ignore[operator]  # wrap() gave it that
            pairs = self.inner.prepare(model.network, batch, scene)  # type: ignore[arg-type]  # likewise
        return Batch(pairs.inputs, pairs.labels, pairs.indices, {**pairs.drawn, "member": member})

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Run the shared network with each row's member."""
        with model.assigned(batch.draw("member")):  # type: ignore[operator]  # wrap() gave it that
            return self.inner.evaluate(model.network, batch)  # type: ignore[arg-type]  # likewise

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Show the inner loss each example once, with what the members say together."""
        if self.sharing == "repeat":
            outputs = log_mean_probs(outputs.view(self.members, -1, *outputs.shape[1:]))
            batch = batch[: len(outputs)]
        self.inner.observe(batch, outputs)


class PosteriorLayer(RandomLayer):
    """A layer with a distribution over weights instead of weights; abstract."""

    @abstractmethod
    def kl(self) -> Tensor:
        """Return KL(posterior ‖ prior) in nats, a scalar."""


def total_kl(model: nn.Module) -> Tensor:
    """Add up KL(posterior ‖ prior) over all layers of a network.

    Args:
        model: Has :class:`PosteriorLayer` layers.

    Returns:
        A scalar; divide it by the number of training examples and add it to the mean loss.
    """
    return torch.stack([module.kl() for module in model.modules() if isinstance(module, PosteriorLayer)]).sum()


class WithKL(LossWrapper):
    r"""A loss plus :math:`β_t\,\mathrm{KL}/N`, with β growing from 0 to 1 over the first steps.

    Args:
        inner: The loss of the data.
        n_train: N.
        anneal: Over how many steps β grows; 0 for β = 1 throughout.
    """

    step: Tensor

    def __init__(self, inner: Loss, n_train: int, anneal: float) -> None:
        super().__init__(inner)
        self.n_train, self.anneal = n_train, anneal
        self.register_buffer("step", torch.zeros((), dtype=torch.long))

    @property
    def beta(self) -> float:
        """β at the present step."""
        return min(1.0, int(self.step) / self.anneal) if self.anneal > 0 else 1.0

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Add the divergence to what only the batch as a whole has."""
        terms, outputs = self.inner.evaluate(model, batch)
        kl = self.beta / self.n_train * total_kl(model)
        return terms._replace(penalty=kl if terms.penalty is None else terms.penalty + kl), outputs

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Count the step."""
        super().observe(batch, outputs)
        self.step += 1


def refuse_looking_inside(loss: Loss, what: str) -> None:
    """Refuse a loss that computes with the last layer's weights, where there is more to it than them.

    Args:
        loss: The method's loss.
        what: The ensemble.

    Raises:
        InputError: If the loss does.
    """
    if isinstance(loss, MetaCalibration):
        raise InputError(
            f"Expected a loss that leaves the last layer alone for {what}, but got meta_calibration. "
            "Combine it with deep, snapshot, swa or mc_dropout instead."
        )


def is_of_logits(loss: Loss) -> bool:
    """Return whether a loss is a function of logits and labels and of nothing else."""
    hooks = ("attach", "prepare", "evaluate", "observe")
    return all(getattr(type(loss), hook) is getattr(Loss, hook) for hook in hooks)
