"""What trackers share: a schedule, logits seen once, fixed examples for curvature, the optimizer's numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surefoot.curvature.objective import LossFunction, cross_entropy, mse
from surefoot.errors import OptionError
from surefoot.losses.mse import MSE
from surefoot.moment import Horizon, Moment
from surefoot.ranks import ALONE
from surefoot.schema import SplitName
from surefoot.seeding import generator
from surefoot.training.predict import predict

WATCHED: tuple[SplitName, ...] = ("train", "test")


class Scheduled:
    """Measures every so many steps, from the untrained network on, and at the very end; abstract.

    A tracker only has to define ``measure``. One that remembers something between two moments also has
    ``state_dict`` and ``load_state_dict``.

    Args:
        horizon: How long the run is.
        every: Steps between two measurements; None for as many as an epoch has.

    Raises:
        OptionError: If that never comes round.

    Example:
        >>> tracker = Scheduled(Horizon(25, 5), every=10)
        >>> [step for step in range(26) if tracker.due(step)]
        [0, 10, 20, 25]
    """

    needs_whole = True  # the network on one rank, not spread out over several

    def __init__(self, horizon: Horizon, *, every: int | None = None) -> None:
        self._every = horizon.steps_per_epoch if every is None else every
        self._end = horizon.n_steps
        if self._every < 1:
            raise OptionError(f"Expected every ≥ 1 step, but got {every}. Write every=10, say.")

    def due(self, step: int) -> bool:
        """Return whether to measure after ``step`` steps; 0 is before the first."""
        return step % self._every == 0 or step == self._end


class OnLogits(Scheduled):
    """A tracker that needs logits of each split's first examples alone; abstract.

    Args:
        horizon: How long the run is.
        every: Steps between two measurements; None for as many as an epoch has.
        examples: How many of each split, at most.
    """

    needs_whole = False

    def __init__(self, horizon: Horizon, *, every: int | None = None, examples: int = 5000) -> None:
        super().__init__(horizon, every=every)
        self.examples = check_examples(examples)


def check_examples(examples: int) -> int:
    """Refuse to look at no example."""
    if examples < 1:
        raise OptionError(f"Expected examples ≥ 1, but got {examples}. Write examples=256, say.")
    return examples


def logits_of(moment: Moment, name: SplitName, examples: int) -> tuple[Tensor, Tensor]:
    """Return logits and labels of a split's first examples; trackers of the same moment share them.

    Args:
        moment: What there is to see.
        name: The split.
        examples: How many, at most.

    Returns:
        Logits in float64 and labels.
    """
    key = "logits", name, examples
    if key not in moment.cache:
        probe = moment.splits[name].first(examples)
        moment.cache[key] = predict(moment.model, probe, moment.ranks or ALONE).double(), probe.labels
    logits, labels = moment.cache[key]
    return logits, labels


class Probe:
    """Fixed training examples to measure curvature on, and as many others to hold out.

    Which ones depends on the size of the data alone, so a run that goes on finds the same ones.

    Args:
        examples: How many, at most.
    """

    def __init__(self, examples: int) -> None:
        self.examples = check_examples(examples)
        self._found: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def __call__(self, moment: Moment) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return inputs and labels of the probe, then of the held-out examples: the same tensors every time."""
        if self._found is None:
            train, spare = moment.splits.train, moment.splits.calibration
            order = torch.randperm(len(train), generator=generator(0, "probe"))
            rows, others = order[: self.examples], order[self.examples : 2 * self.examples]
            if len(others) < len(rows):  # a small training split: other data must do
                train, others = spare, torch.randperm(len(spare), generator=generator(0, "probe"))[: self.examples]
            device = next(moment.model.parameters()).device
            chosen = moment.splits.train.inputs[rows], moment.splits.train.labels[rows]
            held = train.inputs[others], train.labels[others]
            x, y, other_x, other_y = (tensor.to(device) for tensor in (*chosen, *held))
            self._found = x, y, other_x, other_y
        return self._found


def curvature_loss(moment: Moment) -> LossFunction:
    """Say whose curvature to measure: that of squared error where it is trained, else of cross-entropy."""
    return mse if isinstance(moment.loss, MSE) and moment.loss.over == "mean" else cross_entropy


def optimizer_options(moment: Moment) -> dict[str, Any]:
    """Return the options of the first parameter group; empty where no optimizer is known."""
    return moment.optimizer.param_groups[0] if moment.optimizer is not None else {}
