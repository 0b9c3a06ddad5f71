"""How long a run is, and one moment of it: what trackers and ensembles are given."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from surefoot.batches import count_batches
from surefoot.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from surefoot.ranks import Ranks
    from surefoot.schema import Splits

LONGEST = 10**12  # steps; at a thousand a second they take a life


@dataclass(frozen=True)
class Horizon:
    """How long a training is.

    Attributes:
        n_steps: Steps in all; 0 where nobody knows.
        steps_per_epoch: Steps in one pass over the training examples.
        batch_size: Examples in the largest batch.
        n_train: Training examples.

    Example:
        >>> Horizon.of(4000, epochs=40, batch_size=128)
        Horizon(n_steps=1280, steps_per_epoch=32, batch_size=125, n_train=4000)
    """

    n_steps: int
    steps_per_epoch: int
    batch_size: int = 128
    n_train: int = 0

    @classmethod
    def of(cls, n_train: int, *, epochs: int, batch_size: int) -> Horizon:
        """Count the steps of a training, whose batches are of one size; see :mod:`surefoot.batches`.

        Args:
            n_train: Size of the training split.
            epochs: Passes over it.
            batch_size: Examples per step that were asked for.

        Returns:
            The training's length, with the size of its largest batch.

        Raises:
            InputError: If there is nothing to do, or more than anybody can wait for.
        """
        if epochs < 1 or batch_size < 1:
            raise InputError(f"Expected epochs ≥ 1 and batch size ≥ 1, but got {epochs} and {batch_size}. Raise them.")
        per_epoch = count_batches(n_train, batch_size)
        if epochs * per_epoch > LONGEST:
            raise InputError(
                f"Expected at most {LONGEST:,} steps, but the epochs that were asked for are more. Lower them."
            )
        return cls(epochs * per_epoch, per_epoch, -(-n_train // per_epoch), n_train)

    @property
    def epochs(self) -> int:
        """Passes over the training examples."""
        return self.n_steps // self.steps_per_epoch

    def times(self, trainings: int) -> Horizon:
        """Return the length of several such trainings, one after another."""
        return replace(self, n_steps=trainings * self.n_steps)


@dataclass(frozen=True)
class Moment:
    """What a tracker sees: the model and its data after ``step`` steps. It must leave both as they are.

    Attributes:
        step: Steps made.
        epoch: Epochs completed.
        model: In training.
        splits: The data.
        batch: Inputs and labels of the last step; None before the first.
        loss: What is trained; None in a loop that did not say.
        optimizer: Knows the learning rate and, if it is one of ours, the facts of its last step.
        ranks: The processes that train together; all of them measure, and share what takes many passes.
        cache: What trackers at the same moment share, such as logits.
    """

    step: int
    epoch: int
    model: nn.Module
    splits: Splits
    batch: tuple[Tensor, Tensor] | None = None
    loss: nn.Module | None = None
    optimizer: Optimizer | None = None
    ranks: Ranks | None = None
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
