"""AR-AdaLS: smooth labels more where inputs are easier to attack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, Scene, needs_real_inputs
from surefoot.losses._cw import smallest_change
from surefoot.losses._inputs import InputRange, margins
from surefoot.losses.label_smoothing import smoothed
from surefoot.modes import in_eval_mode
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Split, Splits

Attack = Literal["radius", "cw"]
CHUNK = 500


@LOSSES.register("ar_adals", reference="Qin et al. 2021, arXiv:2006.16375")
class ARAdaLS(Loss):
    """Label smoothing learned for groups of equally robust examples from held-out over-confidence.

    Training and calibration examples are each divided into R groups by how far an input must move until the
    decision changes. After every epoch each group's target probability follows its held-out over-confidence,
    q ← q − rate·(confidence − accuracy), clipped to [1/K, 1], and its labels are smoothed by (1 − q)·K/(K − 1).

    That distance is m/‖∇ₓm‖, where the linear approximation of the margin m changes sign (``attack="radius"``), or
    the smallest change that an attack finds (``attack="cw"``), as in the paper. The first one is the default: it
    costs one pass over the examples, the other one ``steps × searches`` passes.

    The paper attacks a reference model, once; here the network in training ranks for itself, which needs no second
    network. ``every=0`` ranks once, after the first epoch; else examples may change groups.

    Args:
        groups: R.
        rate: How fast q follows.
        attack: How the distance is found.
        every: Epochs between rankings; 0 for one ranking only.
        steps: Of each search for an attack.
        searches: How many weights of the margin the attack tries.

    Raises:
        OptionError: If there are no groups, no steps or no searches, or the rate or ``every`` is negative.
    """

    q: Tensor
    group: Tensor
    held_out: Tensor
    epochs: Tensor

    def __init__(
        self,
        *,
        groups: int = 10,
        rate: float = 0.1,
        attack: Attack = "radius",
        every: int = 1,
        steps: int = 50,
        searches: int = 4,
    ) -> None:
        if not (groups >= 1 and rate >= 0):
            raise OptionError(
                f"Expected groups ≥ 1 and rate ≥ 0, but got {groups} and {rate:g}. Try groups=10,rate=0.1."
            )
        if not (every >= 0 and steps >= 1 and searches >= 1):
            raise OptionError(
                f"Expected every ≥ 0, steps ≥ 1 and searches ≥ 1, but got {every}, {steps} and {searches}. "
                "Leave them out."
            )
        super().__init__()
        self.rate, self.attack, self.every, self.steps, self.searches = rate, attack, every, steps, searches
        self.range = InputRange()
        self.register_buffer("q", torch.ones(groups))
        self.register_buffer("group", torch.zeros(0, dtype=torch.long))  # of each training example
        self.register_buffer("held_out", torch.zeros(0, dtype=torch.long))  # of each calibration example
        self.register_buffer("epochs", torch.zeros((), dtype=torch.long))
        self.n_classes = 2

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Put all training examples into one group; with q = 1 nothing is smoothed at first."""
        needs_real_inputs(model, "ar_adals")
        self.n_classes = splits.n_classes
        self.group = torch.zeros(len(splits.train), dtype=torch.long)
        self.held_out = torch.zeros(len(splits.calibration), dtype=torch.long)
        self.range.fit(splits)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy, without smoothing: the group is not known here."""
        return smoothed(logits, labels, 0.0)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Smooth each example as its group says."""
        logits = model(batch.inputs)
        alpha = smoothing_of(self.q, self.n_classes)[self.group[batch.indices]]
        return smoothed(logits, batch.labels, alpha.to(logits.dtype)), logits

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Divide the examples anew where it is time to, and let each group's q follow its held-out gap."""
        held_out = scene.splits.calibration
        if self.epochs == 0 or (self.every and self.epochs % self.every == 0):
            for name, split in (("held_out", held_out), ("group", scene.splits.train)):
                found = divide(self.distances(model, split), len(self.q))
                setattr(self, name, found.to(self.group.device))
        self.epochs += 1
        conf, predicted = scene.logits("calibration").softmax(-1).max(-1)
        gap = conf - (predicted == held_out.labels).to(conf.dtype)
        place = self.held_out.to(gap.device)
        counts = torch.bincount(place, minlength=len(self.q)).clamp(min=1)
        mean_gap = torch.bincount(place, weights=gap, minlength=len(self.q)) / counts
        self.q = follow(self.q, mean_gap.to(self.q), self.rate, self.n_classes)

    def distances(self, model: nn.Module, split: Split) -> Tensor:
        """Return how far each input must move until the decision changes, as this loss finds it; on the CPU."""
        if self.attack == "radius":
            return _in_chunks(robust_radius, model, split)
        attack = partial(smallest_change, box=self.range, steps=self.steps, searches=self.searches)
        return _in_chunks(attack, model, split)


def smoothing_of(q: Tensor, n_classes: int) -> Tensor:
    """Return the smoothing (1 − q)·K/(K − 1) that leaves the true class with probability q.

    Example:
        >>> smoothing_of(torch.tensor(0.9), 3)
        tensor(0.1500)
    """
    return (1 - q) * n_classes / (n_classes - 1)


def follow(q: Tensor, gap: Tensor, rate: float, n_classes: int) -> Tensor:
    """Lower each group's target where it is over-confident, within [1/K, 1].

    Example:
        >>> follow(torch.tensor([1.0]), torch.tensor([0.08]), 0.1, 3)
        tensor([0.9920])
    """
    return (q - rate * gap).clamp(1 / n_classes, 1.0)


def divide(values: Tensor, groups: int) -> Tensor:
    """Return each value's group when they are ranked and divided into groups of equal size.

    Example:
        >>> divide(torch.tensor([0.3, -1.0, 0.2, 5.0]), 2)
        tensor([1, 0, 0, 1])
    """
    ranks = values.argsort(stable=True).argsort()
    return ranks * groups // len(values)


def robust_radius(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return m/‖∇ₓm‖₂ of every example, in eval mode.

    Args:
        model: A classifier.
        inputs: The examples.
        labels: Their classes.

    Returns:
        Shape ``(n,)``; negative where the prediction is wrong.
    """
    with torch.enable_grad(), in_eval_mode(model):
        x = inputs.detach().requires_grad_()
        logits = model(x)
        grad = InputRange().margin_gradient(logits, labels, x, create_graph=False)
        radius: Tensor = margins(logits, labels) / grad.norm(dim=1).clamp(min=1e-12)
    return radius.detach()


def _in_chunks(measure: Callable[[nn.Module, Tensor, Tensor], Tensor], model: nn.Module, split: Split) -> Tensor:
    device = next(model.parameters()).device
    chunks = zip(split.inputs.split(CHUNK), split.labels.split(CHUNK), strict=True)
    return torch.cat([measure(model, x.to(device), y.to(device)).cpu() for x, y in chunks])
