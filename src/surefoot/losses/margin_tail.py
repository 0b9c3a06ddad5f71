"""The tail of robust margins, which bounds calibration error and curvature, as an objective of its own."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import OptionError
from surefoot.losses._base import Batch, Loss, Scene, needs_real_inputs
from surefoot.losses._inputs import GRADIENT_PASSES, InputRange, kl, margins
from surefoot.losses.cross_entropy import cross_entropy
from surefoot.registry import LOSSES
from surefoot.schema import LossTerms, Splits
from surefoot.seeding import RngState, replaying, rng_state

Form = Literal["softplus", "bounded", "log_moment", "moment"]
Robust = Literal["linf", "l2", "attack"]
Smoothness = Literal["gradient", "kl", "difference"]
H = 0.01  # of the finite difference


@LOSSES.register("margin_tail", reference="from the margin bounds of arXiv:2604.20614")
class MarginTail(Loss):
    r"""Cross-entropy plus the tail of robust margins plus their smoothness.

    Push the margins up that an attacker of radius ε leaves, and keep them smooth.

    .. math:: -\log p_y + α R(m_ε) + β S

    m_ε is m − ε‖∇ₓm‖ in the dual norm (1-norm for an l∞ ball, 2-norm for l2), which is the margin's linear
    approximation and no certificate; or the margin where sign steps lead. Forms of R, with K classes:

    * ``softplus``: log(1 + (K−1)e^{−m}), never below the cross-entropy at the worst point;
    * ``bounded``: sigmoid(log(K−1) − m), never below 1 − p_y there, in [0, 1];
    * ``log_moment``: log mean e^{−m} over the batch: the worst examples count alone;
    * ``moment``: e^{−m}, continued by its tangent below ``floor``, since it overflows.

    S is ‖∇ₓm‖₂², or KL(p(x) ‖ p(x_adv)), or one finite difference of m in a random direction, squared; the last
    one's mean is ‖∇ₓm‖₂²/d for d features. Radii and ∇ₓ are in units of the inputs' range, as in ``calmo``.

    Args:
        alpha: α.
        beta: β.
        eps: ε; 0 for clean margins.
        form: R.
        robust: Ball and way to m_ε.
        smoothness: S.
        floor: Where the tangent of ``moment`` begins.
        steps: Of the attack, each eps/steps long.
        warmup: Epochs of cross-entropy alone at the start.

    Raises:
        OptionError: If an option is negative.
    """

    epochs: Tensor

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.01,
        eps: float = 4 / 255,
        form: Form = "softplus",
        robust: Robust = "linf",
        smoothness: Smoothness = "gradient",
        floor: float = -2.0,
        steps: int = 3,
        warmup: int = 1,
    ) -> None:
        if not (alpha >= 0 and beta >= 0 and eps >= 0 and steps >= 1 and warmup >= 0):
            raise OptionError(
                f"Expected alpha, beta, eps, warmup ≥ 0 and steps ≥ 1, but got alpha={alpha:g}, beta={beta:g}, "
                f"eps={eps:g}, warmup={warmup}, steps={steps}. Leave them out."
            )
        if robust == "attack" and smoothness == "difference":
            raise OptionError(
                "Expected smoothness=gradient or smoothness=kl with robust=attack, but got smoothness=difference, "
                "which uses another point. Change one of them."
            )
        super().__init__()
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self.form, self.robust, self.smoothness, self.floor = form, robust, smoothness, floor
        self.steps, self.warmup = steps, warmup
        self.range = InputRange()
        self.register_buffer("epochs", torch.zeros((), dtype=torch.long))  # finished

    def attach(self, model: nn.Module, splits: Splits, generator: torch.Generator) -> nn.Module:
        """Take the inputs' range from the training split."""
        needs_real_inputs(model, "margin_tail")
        self.range.fit(splits)
        return model

    def forward(self, logits: Tensor, labels: Tensor) -> LossTerms:
        """Return the loss for clean margins and without smoothness: all that logits determine."""
        terms = cross_entropy(logits, labels)
        return terms if self._is_warming_up else self._with_tail(terms, margins(logits, labels), logits.shape[-1])

    @property
    def passes(self) -> float:
        """One; then the margin's gradient, another forward pass and the attack before it, where they are needed."""
        if self._is_warming_up:
            return 1.0
        gradient = GRADIENT_PASSES if self._needs_gradient else 0
        return 1 + gradient + (self.steps + 1 if self._needs_attack else 0) + self._needs_difference

    @property
    def _needs_gradient(self) -> bool:
        return bool((self.eps and self.robust != "attack") or (self.beta and self.smoothness == "gradient"))

    @property
    def _needs_attack(self) -> bool:
        return bool(self.eps and (self.robust == "attack" or (self.beta and self.smoothness == "kl")))

    @property
    def _needs_difference(self) -> bool:
        return bool(self.beta and self.smoothness == "difference")

    @property
    def _is_warming_up(self) -> bool:
        return int(self.epochs) < self.warmup

    def _with_tail(self, terms: LossTerms, m: Tensor, n_classes: int) -> LossTerms:
        if self.form == "log_moment":
            return terms._replace(penalty=self.alpha * log_moment(m))
        tail = tail_of(m, n_classes, self.form, self.floor)
        return terms._replace(per_example=terms.per_example + self.alpha * tail)

    def prepare(self, model: nn.Module, batch: Batch, scene: Scene) -> Batch:
        """Draw a direction for each example, where a finite difference is taken."""
        if self.smoothness != "difference":
            return batch
        noise = torch.randn(batch.inputs.shape, generator=scene.generator).to(batch.inputs)
        direction = F.normalize(noise.flatten(1), dim=1).view_as(noise)
        return Batch(batch.inputs, batch.labels, batch.indices, {**batch.drawn, "direction": direction})

    def evaluate(self, model: nn.Module, batch: Batch) -> tuple[LossTerms, Tensor]:
        """Return cross-entropy, tail and smoothness."""
        if self._is_warming_up:
            return super().evaluate(model, batch)
        will_differentiate = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = batch.inputs.detach().requires_grad_()
            before = rng_state()
            logits = model(inputs)
            grad: Tensor | None = None
            if self._needs_gradient:
                grad = self.range.margin_gradient(logits, batch.labels, inputs, create_graph=will_differentiate)
            elsewhere = self._elsewhere(model, batch, before)
            m = self._robust_margins(logits, batch.labels, grad, elsewhere)
            terms = self._with_tail(cross_entropy(logits, batch.labels), m, logits.shape[-1])
            if self.beta:
                extra = self.beta * self._roughness(logits, batch.labels, grad, elsewhere)
                terms = terms._replace(per_example=terms.per_example + extra)
        return terms, logits

    def _elsewhere(self, model: nn.Module, batch: Batch, before: RngState) -> Tensor | None:
        """Return the logits where the attack leads, or a little off in the drawn direction, if they are needed."""
        if self._needs_difference:
            found = batch.inputs + H * self.range.unit * batch.draw("direction")
        elif self._needs_attack:
            step, n = self.eps / self.steps, self.steps
            found = self.range.attack(model, batch.inputs, batch.labels, eps=self.eps, step=step, n=n, aim="margin")
        else:
            return None
        with replaying(before):
            logits: Tensor = model(found)
        return logits

    def _robust_margins(self, logits: Tensor, labels: Tensor, grad: Tensor | None, elsewhere: Tensor | None) -> Tensor:
        m = margins(logits, labels)
        if not self.eps:
            return m
        if self.robust == "attack" and elsewhere is not None:
            return margins(elsewhere, labels)
        if grad is None:
            return m
        return m - self.eps * (grad.abs().sum(1) if self.robust == "linf" else l2_norm(grad))

    def _roughness(self, logits: Tensor, labels: Tensor, grad: Tensor | None, elsewhere: Tensor | None) -> Tensor:
        if self.smoothness == "gradient" and grad is not None:
            return grad.square().sum(1)
        if elsewhere is None:  # KL within a ball of radius 0
            return torch.zeros_like(logits[:, 0])
        if self.smoothness == "kl":
            return kl(logits, elsewhere)
        return ((margins(elsewhere, labels) - margins(logits, labels)) / H).square()

    def epoch_end(self, model: nn.Module, scene: Scene) -> None:
        """Count the epoch."""
        self.epochs += 1


def tail_of(m: Tensor, n_classes: int, form: Form = "softplus", floor: float = -2.0) -> Tensor:
    """Return R of each margin, for the forms that have one per example.

    Args:
        m: Margins.
        n_classes: K.
        form: ``"softplus"``, ``"bounded"`` or ``"moment"``.
        floor: Where the tangent of ``"moment"`` begins.

    Returns:
        The same shape.

    Example:
        >>> m = torch.tensor([0.0])
        >>> tail_of(m, 2), tail_of(m, 2, "bounded"), tail_of(m, 2, "moment")  # log 2, one half, one
        (tensor([0.6931]), tensor([0.5000]), tensor([1.]))
    """
    if form == "softplus":
        return F.softplus(math.log(n_classes - 1) - m)
    if form == "bounded":
        return torch.sigmoid(math.log(n_classes - 1) - m)
    above = m.clamp(min=floor)
    return (-above).exp() * (1 + above - m)


def log_moment(m: Tensor) -> Tensor:
    """Return log mean e^{−m}.

    Example:
        >>> log_moment(torch.tensor([1.0, 1.0]))
        tensor(-1.)
    """
    return (-m).logsumexp(0) - math.log(len(m))


def l2_norm(grad: Tensor) -> Tensor:
    """Return each row's 2-norm, with a slope of 0 where the row is 0."""
    squared = grad.square().sum(1)
    return torch.where(squared > 0, squared.clamp(min=torch.finfo(grad.dtype).tiny).sqrt(), 0.0)
