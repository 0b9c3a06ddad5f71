"""CalMO: calibration with a margin objective."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, needs_real_inputs
from surefoot.losses._inputs import GRADIENT_PASSES, InputRange, kl
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits
from surefoot.seeding import replaying, rng_state


@LOSSES.register("calmo", reference="Too Sharp, Too Sure 2026, arXiv:2604.20614v1")
class CalMO(Loss):
    r"""Cross-entropy plus KL to an attacked prediction plus squared input gradient of the margin.

    .. math:: -\log p_y + a_r \, KL(p(x) ‖ p(x^{adv})) + a_s \, ‖∇_x m‖_2^2

    with x^adv found by sign steps on the cross-entropy, m the margin. What the paper leaves open is chosen so: the
    ball is l∞; radius, steps and ∇ₓ are in units of the inputs' range (8/255 is 8 grey levels, also of
    standardised images) and x^adv stays in it; the attack sees the network in eval mode; both sides of KL are
    differentiated and drop the same units; the runner-up of the margin is held fixed. With the defaults the attack
    goes 6/255 far: its three steps do not reach the ball's border.

    ``robust=0`` and ``smooth=0`` are the paper's ablations "flat" and "rob".

    Args:
        robust: a_r.
        smooth: a_s.
        eps: Radius of the attack.
        step: Length of its steps.
        steps: Their number.

    Raises:
        OptionError: If an option is negative.
    """

    def __init__(
        self,
        *,
        robust: float = 0.5,
        smooth: float = 0.01,
        eps: float = 8 / 255,
        step: float = 2 / 255,
        steps: int = 3,
    ) -> None:
        if not (robust >= 0 and smooth >= 0 and eps >= 0 and step >= 0 and steps >= 1):
            raise OptionError(
                f"Expected weights, eps and step ≥ 0 and steps ≥ 1, but got robust={robust:g}, smooth={smooth:g}, "
                f"eps={eps:g}, step={step:g}, steps={steps}. Leave them out for the paper's."
            )
        super().__init__()
        self.robust, self.smooth = robust, smooth
        self.eps, self.step, self.steps = eps, step, steps
        self.range = InputRange()

    @property
    def passes(self) -> float:
        """One, the attack's and the one behind it, and the margin's gradient."""
        return 1 + (self.steps + 1 if self.robust else 0) + (GRADIENT_PASSES if self.smooth else 0)

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Take the inputs' range from the training split."""
        needs_real_inputs(model, "calmo")
        self.range.fit(splits)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the cross-entropy, the part that logits determine."""
        return cross_entropy(logits, labels)

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return all three parts for each example."""
        will_differentiate = torch.is_grad_enabled()
        inputs, labels = batch.inputs, batch.labels
        with torch.enable_grad():
            if self.smooth:
                inputs = inputs.detach().requires_grad_()
            before = rng_state()
            logits = model(inputs)
            terms: LossTerms = self(logits, labels)
            per_example = terms.per_example
            if self.robust:
                found = self.range.attack(model, inputs, labels, eps=self.eps, step=self.step, n=self.steps)
                with replaying(before):
                    per_example = per_example + self.robust * kl(logits, model(found))
            if self.smooth:
                grad = self.range.margin_gradient(logits, labels, inputs, create_graph=will_differentiate)
                per_example = per_example + self.smooth * grad.square().sum(1)
        return terms._replace(per_example=per_example), logits
