"""ESAM: climb with some of the weights, descend with some of the examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._closure import Closure, Parts, terms_of
from surefoot.optim._norms import TINY, total_norm
from surefoot.optim._rules import Ascent, Slope, ascent_rule
from surefoot.optim._sharpness import Common, SharpnessAware
from surefoot.optim._wrapper import Wrapper
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms
from surefoot.seeding import generator, replaying

if TYPE_CHECKING:
    from torch.amp import GradScaler


@ascent_rule("esam")
class SomeWeights(Ascent):
    """ε = (ρ/β)·g/‖g‖ on whole tensors that are each kept with probability β; the norm is over the kept ones.

    Args:
        beta: β.
        seed: Of the choice, which depends on it and on the step alone.

    Raises:
        InputError: If beta is not in (0, 1].
    """

    memory = ("seed",)

    def __init__(self, beta: float = 0.6, seed: int = 0) -> None:
        if not 0 < beta <= 1:
            raise InputError(f"Expected beta in (0, 1], but got {beta:g}. Try beta=0.6.")
        super().__init__()
        self.beta = beta
        self.seed = seed

    def climb(self, slope: Slope, places: list[Tensor]) -> float | None:
        """Climb with the tensors drawn for this step; the others stay."""
        tosses = torch.rand(max(slope.indices) + 1, generator=generator(self.seed, f"esam/{slope.t}"))
        keeps = [self.beta == 1 or tosses[index].item() < self.beta for index in slope.indices]
        norm = total_norm([grad for grad, keep in zip(slope.grads, keeps, strict=True) if keep])
        each = zip(slope.params, slope.grads, places, slope.rhos, keeps, strict=True)
        for weight, grad, place, rho, keep in each:
            torch.add(weight, grad, alpha=rho / self.beta / (norm + TINY) if keep else 0.0, out=place)
        return None


class ESAM(SharpnessAware):
    """Efficient SAM: stochastic weight perturbation and sharpness-sensitive data selection.

    The climb uses a random subset of the tensors. At the perturbed weights, only the share γ of the examples
    whose loss has grown most is differentiated. With a :class:`~surefoot.optim.Parts` closure these are found in
    a forward pass without gradients and evaluated on their own, which is what saves time; with any other closure
    the result is the same (up to BatchNorm, which then sees the whole batch) and nothing is saved.

    The authors' code uses the tensors drawn at the step before and keeps one example less than γ·n; here the
    draw is this step's, and round(γ·n) examples are kept, at least one.

    Args:
        base: Makes the step.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        rho: Radius ρ of the climb.
        beta: β, the share of tensors that climb; 1 is all of them.
        gamma: γ, the share of examples that are kept; 1 is all of them.
        seed: Of the choice of tensors.
        **common: ``stable``, ``nonfinite``, ``perturbation``: see :class:`SharpnessAware`.

    Raises:
        InputError: If gamma is not in (0, 1].

    Reference: Du et al. 2022, arXiv:2110.03141.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = 0.05,
        beta: float = 0.6,
        gamma: float = 0.5,
        seed: int = 0,
        **common: Unpack[Common],
    ) -> None:
        if not 0 < gamma <= 1:
            raise InputError(f"Expected gamma in (0, 1], but got {gamma:g}. Try gamma=0.5.")
        super().__init__(base, model, rho=rho, ascent=SomeWeights(beta, seed), **common)
        self.gamma = gamma
        self.needs_per_example = True
        self._clean: list[Tensor] = []
        self._chosen = False

    def keep(self, grown: Tensor) -> Tensor:
        """Give the indices of the examples to keep, in their order.

        Args:
            grown: By how much each example's loss grew.

        Returns:
            round(γ·n) indices, at least one.
        """
        n = max(1, round(self.gamma * len(grown)))
        return grown.topk(n).indices.sort().values

    def reduce(self, terms: LossTerms) -> Tensor:
        """Take the clean losses down in the clean pass, keep the examples that grew most in the other."""
        if not self._is_perturbed:
            self._clean.append(terms.per_example.detach())
        elif not self._chosen:  # the n-th batch of this pass is the n-th batch of the clean one
            grown = terms.per_example.detach() - self._clean[len(self._now.seen[1])]
            terms = _only(terms, self.keep(grown))
        return super().reduce(terms)

    def _begin(self, *args: object) -> None:
        super()._begin(*args)  # type: ignore[arg-type]  # handed on as they come
        self._clean = []

    def _second_pass(self, closure: Closure, scaler: GradScaler | None) -> Tensor:
        if not isinstance(closure, Parts) or self.gamma == 1:
            return super()._second_pass(closure, scaler)
        with torch.no_grad(), replaying(self._now.before):  # what is drawn here is drawn again for those that are kept
            grown = _losses(closure) - torch.cat(self._clean)
        kept = self.keep(grown)
        self._chosen = True
        try:
            loss = self._differentiate(_part(closure, kept), scaler)
        finally:
            self._chosen = False
        self._now.passes += len(kept) / len(grown)
        return loss


def _losses(closure: Parts) -> Tensor:
    terms = terms_of(closure())
    if terms is None:
        raise InputError("Expected one loss per example from Parts, but got a scalar. Use reduction='none'.")
    return terms.per_example


def _part(closure: Parts, kept: Tensor) -> Callable[[], Tensor | LossTerms]:
    return lambda: closure(kept)


def _only(terms: LossTerms, kept: Tensor) -> LossTerms:
    log_py = None if terms.log_py is None else terms.log_py[kept]
    return terms._replace(per_example=terms.per_example[kept], log_py=log_py)


@OPTIMIZERS.register("esam", passes="1 + gamma", wraps=True, reference="Du et al. 2022, arXiv:2110.03141")
def esam(
    base: Optimizer,
    model: nn.Module,
    *,
    rho: float = 0.2,
    beta: float = 0.6,
    gamma: float = 0.5,
    seed: int = 0,
    stable: bool = False,
) -> Wrapper:
    """SAM that climbs with some tensors and descends with the examples that grew most."""
    return ESAM(base, model, rho=rho, beta=beta, gamma=gamma, seed=seed, stable=stable)
