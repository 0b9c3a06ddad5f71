"""Mixup."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, Scene, needs_real_inputs
from surefoot.losses._mixing import beta_source, mix, with_partners
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits


@LOSSES.register("mixup", reference="Zhang et al. 2018, arXiv:1710.09412")
class Mixup(Loss):
    """Cross-entropy on convex mixtures of two examples and their labels.

    x' = λx + (1 − λ)x_π, with the labels mixed alike. One λ ~ Beta(α, α) and one permutation π per step are shared
    by all passes and all parts of the batch. The loss of a mixed example is λ·CE(y) + (1 − λ)·CE(y_π); it also is
    what CSAM takes for −log p_y.

    Args:
        alpha: α.
        fold: Use max(λ, 1 − λ), as some codes do.

    Raises:
        OptionError: If alpha is not positive.
    """

    def __init__(self, *, alpha: float = 1.0, fold: bool = False) -> None:
        if not alpha > 0:
            raise OptionError(f"Expected alpha > 0, but got {alpha:g}. Try alpha=1.")
        super().__init__()
        self.alpha, self.fold = alpha, fold

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Refuse networks whose inputs cannot be mixed."""
        needs_real_inputs(model, "mixup")
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy of examples that are not mixed."""
        return cross_entropy(logits, labels)

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Draw λ and π."""
        share = beta_source(scene.generator).beta(self.alpha, self.alpha)
        share = max(share, 1 - share) if self.fold else share
        return with_partners(batch, scene.generator, share=torch.tensor(share))

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return the loss of each mixed example."""
        share = batch.draw("share")
        logits = model(mix(batch.inputs, batch.draw("partner_inputs"), share))
        return mixed_cross_entropy(logits, batch.labels, batch.draw("partner_labels"), share), logits


def mixed_cross_entropy(logits: Tensor, labels: Tensor, partner_labels: Tensor, share: Tensor) -> LossTerms:
    """Return share·CE(y) + (1 − share)·CE(y_π) of each example.

    Args:
        logits: Of mixed inputs, shape ``(n, classes)``.
        labels: Of the first of each two, shape ``(n,)``.
        partner_labels: Of the second.
        share: λ, shape ``(n,)``.

    Returns:
        One loss per example.
    """
    first = F.cross_entropy(logits, labels, reduction="none")
    second = F.cross_entropy(logits, partner_labels, reduction="none")
    per_example = mix(first, second, share)
    return LossTerms(per_example, log_py=-per_example)
