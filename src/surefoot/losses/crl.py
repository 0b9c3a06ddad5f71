"""CRL: correctness ranking loss."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, Scene
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.losses.entropy import entropy_of
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits

Confidence = Literal["top", "entropy", "margin"]


@LOSSES.register("crl", reference="Moon et al. 2020, arXiv:2007.01458")
class CRL(Loss):
    r"""Cross-entropy plus a ranking of confidences by how often each example was predicted right.

    .. math:: -\log p_y + w \frac1n Σ_i \max(0, -s_i (κ_i - κ_{i+1}) + |c_i - c_{i+1}|)

    with κ the confidence, c the history and s the sign of c_i − c_{i+1}. Pairs are neighbours in the batch, the last
    with the first; equal histories pay nothing. An example's history grows once per step, from the clean pass. In
    the first epoch all histories are equal.

    Args:
        weight: w.
        confidence: κ: the largest probability, 1 − entropy/log K, or the lead of the first class over the second.

    Raises:
        OptionError: If the weight is negative.
    """

    counts: Tensor
    epochs: Tensor

    def __init__(self, *, weight: float = 1.0, confidence: Confidence = "top") -> None:
        if not weight >= 0:
            raise OptionError(f"Expected weight ≥ 0, but got {weight:g}. Try weight=1.")
        super().__init__()
        self.weight, self.confidence = weight, confidence
        self.register_buffer("counts", torch.zeros(0, dtype=torch.long))  # epochs predicted right, per example
        self.register_buffer("epochs", torch.zeros((), dtype=torch.long))  # finished

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Start a history for every training example."""
        self.counts = torch.zeros(len(splits.train), dtype=torch.long)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy, which is all there is without histories."""
        return cross_entropy(logits, labels)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return the cross-entropy of each example and the ranking penalty of the batch."""
        logits = model(batch.inputs)
        ranking = ranking_penalty(self._confidence(logits), self.history(batch.indices).to(logits.dtype))
        return self(logits, batch.labels)._replace(penalty=self.weight * ranking), logits

    def history(self, indices: Tensor) -> Tensor:
        """Return c in [0, 1], each example's normalised count; 0 for all while all counts are equal and full."""
        lowest = self.counts.min()
        span = self.epochs.clamp(min=1) - lowest
        return (self.counts[indices] - lowest) / span.clamp(min=1)

    def _confidence(self, logits: Tensor) -> Tensor:
        log_probs = logits.log_softmax(-1)
        if self.confidence == "entropy":
            return 1 - entropy_of(log_probs) / math.log(logits.shape[-1])
        best = log_probs.exp().topk(2).values
        return best[:, 0] if self.confidence == "top" else best[:, 0] - best[:, 1]

    def observe(self, batch: Batch, outputs: Tensor) -> None:
        """Count the examples that were predicted right before the step."""
        self.counts[batch.indices] += outputs.argmax(-1) == batch.labels

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Count the epoch."""
        self.epochs += 1


def ranking_penalty(confidence: Tensor, history: Tensor) -> Tensor:
    """Return the mean hinge over neighbouring pairs.

    Args:
        confidence: κ, shape ``(n,)``.
        history: c, shape ``(n,)``; carries no gradient.

    Returns:
        A scalar.

    Example:
        >>> ranking_penalty(torch.tensor([0.9, 0.6]), torch.tensor([0.0, 0.5]))  # wrong way round: 0.3 + 0.5
        tensor(0.8000)
    """
    difference = history - history.roll(-1)
    hinge = (-difference.sign() * (confidence - confidence.roll(-1)) + difference.abs()).relu()
    return torch.where(difference == 0, 0.0, hinge).mean()
