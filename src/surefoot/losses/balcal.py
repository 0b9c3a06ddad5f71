"""BalCAL: an over-confident and an under-confident head, balanced."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError, OptionError
from surefoot.losses._base import Batch, Loss, Scene, true_class
from surefoot.losses._heads import TwoHeads
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits


@LOSSES.register("balcal", reference="Ni et al. 2025, BalCAL")
class BalCAL(Loss):
    """A second, under-confident head whose share is balanced after every epoch.

    λ·CE(z_own, y) + (1 − λ)·CE(z_fixed·E, y) for a network with two heads.

    The fixed head is a simplex on unit-norm features: it cannot be very sure. E gives rare classes of the batch
    longer columns. After every epoch λ is chosen so that the mean confidence of the mixed training logits is δ
    times their accuracy. λ belongs to the network, which predicts with λ·z_own + (1 − λ)·z_fixed.

    Args:
        share: λ in the first epoch.
        delta: δ.

    Raises:
        OptionError: If share or delta is not in (0, 1].
    """

    seen: Tensor

    def __init__(self, *, share: float = 0.8, delta: float = 0.95) -> None:
        if not (0 < share <= 1 and 0 < delta <= 1):
            raise OptionError(
                f"Expected share and delta in (0, 1], but got {share:g} and {delta:g}. Try share=0.8,delta=0.95."
            )
        super().__init__()
        self.share, self.delta = share, delta
        self.register_buffer("seen", torch.zeros(0, 0))  # both heads' logits of this epoch; NaN: not yet

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Add the second head, and room for an epoch's logits."""
        self.seen = torch.full((len(splits.train), 2 * splits.n_classes), torch.nan)
        return TwoHeads(model, splits.train.inputs[:2], splits.n_classes, self.share, generator)

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy of the mixed logits."""
        return cross_entropy(logits, labels)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return the balanced loss of each example."""
        if not isinstance(model, TwoHeads):
            raise InputError(
                f"Expected a network with two heads, but got {type(model).__name__}. Train what loss.attach() gave."
            )
        own, fixed = model.heads(batch.inputs)
        fixed = fixed * class_balance(batch.labels, own.shape[-1])
        return balanced(own, fixed, batch.labels, model.share), torch.cat([own, fixed], -1)

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Keep the logits of the epoch."""
        self.seen[batch.indices] = outputs.to(self.seen.dtype)

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Choose λ anew and forget the epoch's logits."""
        known = ~self.seen.isnan().any(-1)
        own, fixed = self.seen[known].chunk(2, -1)
        labels = scene.splits.train.labels.to(own.device)[known]
        if isinstance(model, TwoHeads):
            model.share.fill_(choose_share(own, fixed, labels, self.delta))
        self.seen.fill_(torch.nan)


def class_balance(labels: Tensor, n_classes: int) -> Tensor:
    """Return E_k = √((n / classes in the batch) / count_k), 1 for absent classes.

    Example:
        >>> class_balance(torch.tensor([0, 2, 1, 1]), 3)
        tensor([1.1547, 0.8165, 1.1547])
    """
    counts = torch.bincount(labels, minlength=n_classes)
    present = counts > 0
    return torch.where(present, (len(labels) / present.sum() / counts.clamp(min=1)).sqrt(), 1.0)


def balanced(own: Tensor, fixed: Tensor, labels: Tensor, share: Tensor | float) -> LossTerms:
    """Mix the cross-entropies of two heads.

    Args:
        own: Logits of the network's own head, shape ``(n, classes)``.
        fixed: Logits of the fixed head, times E.
        labels: Class indices, shape ``(n,)``.
        share: λ.

    Returns:
        One loss per example; log p_y is that of the mixed logits.
    """
    first = F.cross_entropy(own, labels, reduction="none")
    second = F.cross_entropy(fixed, labels, reduction="none")
    mixed = share * own + (1 - share) * fixed
    log_py = true_class(mixed.log_softmax(-1), labels)
    return LossTerms(share * first + (1 - share) * second, log_py=log_py)


def choose_share(own: Tensor, fixed: Tensor, labels: Tensor, delta: float) -> float:
    """Find λ in [0, 1] with mean confidence = δ·accuracy of the mixed logits, by bisection to 1e-4.

    The authors' code may keep an earlier midpoint than the best; here the best one is kept.

    Args:
        own: Logits of the network's own head, shape ``(n, classes)``.
        fixed: Logits of the fixed head.
        labels: Class indices, shape ``(n,)``.
        delta: δ.

    Returns:
        λ; 1 if the network's own head is not too sure already, or if no mixture is closer.
    """

    def excess(share: float) -> float:
        conf, predicted = (share * own + (1 - share) * fixed).softmax(-1).max(-1)
        return (conf.mean() - delta * (predicted == labels).to(conf.dtype).mean()).item()

    best, best_gap = 1.0, excess(1.0)
    if best_gap <= 0:
        return best
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        gap = excess(middle)
        if abs(gap) < abs(best_gap):
            best, best_gap = middle, gap
        low, high = (low, middle) if gap > 0 else (middle, high)
    return best
