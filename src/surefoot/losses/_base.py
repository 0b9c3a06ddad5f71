"""What every loss is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from surefoot.errors import InputError
from surefoot.schema import LossTerms, SplitName, Splits


@dataclass(frozen=True)
class Batch:
    """Examples of one step, and what was drawn for them.

    Attributes:
        inputs: Shape ``(n, …)``.
        labels: Class indices, shape ``(n,)``.
        indices: Each example's place in the training split, shape ``(n,)``.
        drawn: What :meth:`Loss.prepare` drew for each example: tensors with n rows.

    Example:
        >>> x = torch.arange(4.0)
        >>> batch = Batch(x, torch.zeros(4).long(), torch.arange(4), {"weight": x / 10})
        >>> batch[1:3].draw("weight"), len(batch[torch.tensor([0, 3])])
        (tensor([0.1000, 0.2000]), 2)
    """

    inputs: Tensor
    labels: Tensor
    indices: Tensor
    drawn: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        """Count the examples."""
        return len(self.labels)

    def __getitem__(self, part: slice | Tensor) -> Batch:
        """Take some of the examples, with what was drawn for them."""
        drawn = {name: values[part] for name, values in self.drawn.items()}
        return Batch(self.inputs[part], self.labels[part], self.indices[part], drawn)

    def draw(self, name: str) -> Tensor:
        """Return what was drawn for each example under a name.

        Args:
            name: Of the drawn quantity.

        Returns:
            A tensor with n rows.

        Raises:
            InputError: If nothing was drawn.
        """
        if name not in self.drawn:
            raise InputError(f"Expected a batch with {name!r} drawn, but it has none. Pass it through loss.prepare().")
        return self.drawn[name]


@dataclass(frozen=True)
class Scene:
    """What a loss may use beside its batch.

    Attributes:
        splits: The data of the run. A loss that fits anything uses the calibration split, never the test split.
        generator: The only source of random numbers: it depends on the run's seed and the step alone.
        logits: Returns the model's present logits of a split, in eval mode, on the CPU.
        lr: The step's learning rate.
    """

    splits: Splits
    generator: torch.Generator
    logits: Callable[[SplitName], Tensor]
    lr: float


class Loss(nn.Module):
    """A training objective. Most are a function of logits and labels and define :meth:`forward` only.

    The loop calls :meth:`attach` once, :meth:`prepare` at the start of every step, :meth:`evaluate` as often as
    the optimizer likes and on any part of the batch, :meth:`observe` at the end of the step and :meth:`epoch_end`
    after the last step of an epoch. Between steps a loss remembers buffers only: they are saved with the
    checkpoint. They never change in :meth:`evaluate`, so both passes of a sharpness-aware step see the same loss.
    """

    @property
    def passes(self) -> float:
        """What one evaluation costs now, in forward-and-backward passes through the network."""
        return 1.0

    @abstractmethod
    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the loss of each example and of the batch, or as much of it as logits and labels determine.

        Args:
            logits: Shape ``(n, classes)``.
            labels: Class indices, shape ``(n,)``.

        Returns:
            The terms.
        """

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Get ready for a model and its data, before the first step and before the optimizer is made.

        Args:
            model: The network.
            splits: The data, from which buffers take their size.
            generator: Depends on the run's seed alone.

        Returns:
            The network to train: the same one, or a larger one around it.
        """
        return model

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Make the random draws of one step, and whatever else is done once before its first pass.

        Args:
            model: The network, at the weights before the step.
            batch: The examples of the step.
            scene: What else a loss may use.

        Returns:
            The batch, with what was drawn for each example.
        """
        return batch

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Run the network on a batch or a part of it.

        Args:
            model: The network, at whichever weights the optimizer wants to know the loss of.
            batch: What :meth:`prepare` gave, or some of its examples.

        Returns:
            The terms, and the outputs that :meth:`observe` wants to see: one row per example.
        """
        logits = model(batch.inputs)
        terms = self(logits, batch.labels)
        if not isinstance(terms, LossTerms):
            raise InputError(
                f"Expected {type(self).__name__} to return LossTerms, but got {type(terms).__name__}. "
                "Return LossTerms(per_example), with one value per example and no mean over them."
            )
        return terms, logits

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Update the loss's own state from one step's clean pass; most losses have none.

        Args:
            batch: The whole batch.
            outputs: What :meth:`evaluate` gave for it at the weights before the step, without gradient.
        """

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Update the loss's own state after the last step of an epoch; most losses have none.

        Args:
            model: The network.
            scene: What a loss may use.
        """


def true_class(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return each example's entry of its true class.

    Args:
        log_probs: Log-probabilities, or logits, shape ``(n, classes)``.
        labels: Class indices, shape ``(n,)``.

    Returns:
        Shape ``(n,)``.
    """
    return log_probs.gather(-1, labels[:, None]).squeeze(-1)


def needs_real_inputs(model: nn.Module, what: str) -> None:
    """Refuse a network that reads tokens, for losses that mix inputs or differentiate by them.

    Args:
        model: The network; one that reads tokens says so by ``takes_tokens = True``.
        what: The loss.

    Raises:
        InputError: If it reads tokens.
    """
    if getattr(model, "takes_tokens", False):
        raise InputError(
            f"Expected inputs that can be mixed and differentiated by for {what}, but the network reads tokens. "
            "Choose another loss for text."
        )
