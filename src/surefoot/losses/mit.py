"""MIT: mixup inference in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError, OptionError
from surefoot.losses._base import Batch, Loss, Scene, needs_real_inputs, true_class
from surefoot.losses._mixing import beta_source, mix, with_partners
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits
from surefoot.seeding import replaying, rng_state

Where = Literal["logits", "stages"]


@LOSSES.register("mit", reference="Wang et al. 2023, ICML")
class MIT(Loss):
    """Mixup whose outputs are taken apart again before the loss: MIT-L, or MIT-A with where=stages.

    Each two examples are mixed twice. With shares l₁ > l₂ and outputs O₁, O₂, the parts A and B solve
    O₁ = l₁A + (1 − l₁)B and O₂ = l₂A + (1 − l₂)B. The loss is ½CE(A, y) + ½CE(B, y_π). MIT-L takes the logits
    apart. MIT-A takes apart and mixes again, with new shares, after every stage; the network must expose its
    ``stages``.

    Args:
        where: ``"logits"`` for MIT-L, ``"stages"`` for MIT-A.
        alpha: The shares are max(u, 1 − u) and min(v, 1 − v), with u, v ~ Beta(α, α).
        margin: They are drawn anew until they differ by this much: noise grows as 1/(l₁ − l₂).

    Raises:
        OptionError: If there are no such shares.
    """

    def __init__(self, *, where: Where = "logits", alpha: float = 1.0, margin: float = 0.5) -> None:
        if not (alpha > 0 and 0 <= margin < 1):
            raise OptionError(
                f"Expected alpha > 0 and margin in [0, 1), but got {alpha:g} and {margin:g}. Try alpha=1,margin=0.5."
            )
        super().__init__()
        self.where, self.alpha, self.margin = where, alpha, margin

    @property
    def passes(self) -> float:
        """Two: one for each mixture."""
        return 2.0

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Refuse networks that cannot be mixed where it is wanted."""
        needs_real_inputs(model, "mit")
        self._stages(model)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy of examples that are not mixed."""
        return cross_entropy(logits, labels)

    def _stages(self, model: nn.Module) -> Sequence[nn.Module]:
        if self.where == "logits":
            return [model]
        stages: Sequence[nn.Module] | None = getattr(model, "stages", None)
        if stages is None:
            raise InputError(
                f"Expected a network with stages for mit:where=stages, but {type(model).__name__} has none. "
                "Use mit:where=logits, or give the network an attribute stages: modules that run one after another."
            )
        return stages

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Draw the permutation, and two shares for each stage."""
        source = beta_source(scene.generator)
        shares = torch.tensor([self._draw_shares(source) for _ in self._stages(model)])
        return with_partners(batch, scene.generator, shares=shares)

    def _draw_shares(self, source: np.random.Generator) -> tuple[float, float]:
        while True:
            u, v = source.beta(self.alpha, self.alpha, 2)
            high, low = max(u, 1 - u), min(v, 1 - v)
            if high - low > 0 and high - low >= self.margin:
                return high, low

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Mix, run and take apart, stage by stage."""
        a, b = batch.inputs, batch.draw("partner_inputs")
        for stage, shares in zip(self._stages(model), batch.draw("shares").unbind(1), strict=True):
            high, low = shares.unbind(-1)
            before = rng_state()
            one = stage(mix(a, b, high))
            with replaying(before):
                other = stage(mix(a, b, low))
            a, b = unmix(one, other, high, low)
        first = F.cross_entropy(a, batch.labels, reduction="none")
        second = F.cross_entropy(b, batch.draw("partner_labels"), reduction="none")
        per_example = 0.5 * first + 0.5 * second
        return LossTerms(per_example, log_py=true_class(a.log_softmax(-1), batch.labels)), a


def unmix(first: Tensor, second: Tensor, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Solve first = high·A + (1 − high)·B and second = low·A + (1 − low)·B.

    Args:
        first: Outputs for the first mixture, shape ``(n, …)``.
        second: Outputs for the second.
        high: Shares of A in the first mixture, shape ``(n,)``.
        low: Shares of A in the second.

    Returns:
        A and B.

    Example:
        >>> unmix(torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([0.75]), torch.tensor([0.25]))
        (tensor([4.]), tensor([0.]))
    """
    high, low = (share.reshape(-1, *[1] * (first.ndim - 1)) for share in (high, low))
    a = ((1 - low) * first - (1 - high) * second) / (high - low)
    b = (high * second - low * first) / (high - low)
    return a, b
