"""AR-AdaLS: smooth labels more where inputs are easier to attack."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, Scene, needs_real_inputs
from surefoot.losses._inputs import InputRange, margins
from surefoot.losses.label_smoothing import smoothed
from surefoot.modes import in_eval_mode
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Split, Splits

CHUNK = 500


class ARAdaLS(Loss):
    """Label smoothing whose strength is learned for each of R groups of equally robust examples.

    After every epoch training and calibration examples are each divided into R groups by m/‖∇ₓm‖, the distance
    at which a linear look at the margin m sees the decision change. Then each group's target probability follows
    its held-out over-confidence, q ← q − rate·(confidence − accuracy), clipped to [1/K, 1], and its labels are
    smoothed by (1 − q)·K/(K − 1).

    The paper ranks by an attack on a reference model, once; here the network in training ranks for itself, which
    needs neither but lets examples change groups.

    Args:
        groups: R.
        rate: How fast q follows.

    Raises:
        OptionError: If there are no groups or the rate is negative.
    """

    q: Tensor
    group: Tensor

    def __init__(self, groups: int = 10, rate: float = 0.1) -> None:
        if not (groups >= 1 and rate >= 0):
            raise OptionError(
                f"Expected groups ≥ 1 and rate ≥ 0, but got {groups} and {rate:g}. Try groups=10,rate=0.1."
            )
        super().__init__()
        self.rate = rate
        self.register_buffer("q", torch.ones(groups))
        self.register_buffer("group", torch.zeros(0, dtype=torch.long))  # of each training example
        self.n_classes = 2

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Put all training examples into one group; with q = 1 nothing is smoothed at first."""
        needs_real_inputs(model, "ar_adals")
        self.n_classes = splits.n_classes
        self.group = torch.zeros(len(splits.train), dtype=torch.long)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Give the cross-entropy, without smoothing: the group is not known here."""
        return smoothed(logits, labels, 0.0)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Smooth each example as its group says."""
        logits = model(batch.inputs)
        alpha = smoothing_of(self.q, self.n_classes)[self.group[batch.indices]]
        return smoothed(logits, batch.labels, alpha.to(logits.dtype)), logits

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Divide the examples anew and let each group's q follow its held-out gap."""
        held_out = scene.splits.calibration
        conf, predicted = scene.logits("calibration").softmax(-1).max(-1)
        gap = conf - (predicted == held_out.labels).to(conf.dtype)
        place = divide(robust_radius(model, held_out), len(self.q))
        counts = torch.bincount(place, minlength=len(self.q)).clamp(min=1)
        mean_gap = torch.bincount(place, weights=gap, minlength=len(self.q)) / counts
        self.q = follow(self.q, mean_gap.to(self.q), self.rate, self.n_classes)
        self.group = divide(robust_radius(model, scene.splits.train), len(self.q)).to(self.group.device)


def smoothing_of(q: Tensor, n_classes: int) -> Tensor:
    """Give the smoothing (1 − q)·K/(K − 1) that leaves the true class with probability q.

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
    """Give each value's group when they are ranked and divided into groups of equal size.

    Example:
        >>> divide(torch.tensor([0.3, -1.0, 0.2, 5.0]), 2)
        tensor([1, 0, 0, 1])
    """
    ranks = values.argsort(stable=True).argsort()
    return ranks * groups // len(values)


def robust_radius(model: nn.Module, split: Split) -> Tensor:
    """Give m/‖∇ₓm‖₂ of every example, in eval mode.

    Args:
        model: A classifier.
        split: The examples.

    Returns:
        On the CPU, shape ``(n,)``; negative where the prediction is wrong.
    """
    device = next(model.parameters()).device
    found = []
    with torch.enable_grad(), in_eval_mode(model):
        for inputs, labels in zip(split.inputs.split(CHUNK), split.labels.split(CHUNK), strict=True):
            x, y = inputs.to(device).requires_grad_(), labels.to(device)
            logits = model(x)
            grad = InputRange().margin_gradient(logits, y, x, create_graph=False)
            found.append((margins(logits, y) / grad.norm(dim=1).clamp(min=1e-12)).detach().cpu())
    return torch.cat(found)


@LOSSES.register("ar_adals", reference="Qin et al. 2021, arXiv:2006.16375")
def ar_adals(*, groups: int = 10, rate: float = 0.1) -> Loss:
    """Label smoothing learned for groups of equally robust examples from held-out over-confidence."""
    return ARAdaLS(groups, rate)
