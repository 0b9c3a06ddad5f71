"""ESAM: climb with some of the weights, descend with some of the examples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._closure import Closure, Parts, read_losses, terms_of
from surefoot.optim._step import WHOSE_LOSS, Step
from surefoot.optim.rules import RHO, TINY, Ascent, CleanGradient, Nonfinite, Perturbation, ascent_rule, total_norm
from surefoot.optim.sharpness_aware import SharpnessAware
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

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Climb with the tensors drawn for this step; the others stay."""
        tosses = torch.rand(max(clean.indices) + 1, generator=generator(self.seed, f"esam/{clean.t}"))
        keeps = [self.beta == 1 or tosses[index].item() < self.beta for index in clean.indices]
        norm = total_norm([grad for grad, keep in zip(clean.grads, keeps, strict=True) if keep])
        each = zip(clean.params, clean.grads, places, clean.rhos, keeps, strict=True)
        for weight, grad, place, rho, keep in each:
            torch.add(weight, grad, alpha=rho / self.beta / (norm + TINY) if keep else 0.0, out=place)
        return None


@OPTIMIZERS.register("esam", passes="1 + gamma", wraps=True, reference="Du et al. 2022, arXiv:2110.03141")
class ESAM(SharpnessAware):
    """SAM that climbs with some tensors and descends with the examples that grew most.

    Efficient SAM: stochastic weight perturbation and sharpness-sensitive data selection.

    The climb uses a random subset of the tensors. At the perturbed weights, only the share γ of the examples
    whose loss has grown most is differentiated; an example with several losses, one per token, counts by their mean.
    With a :class:`~surefoot.optim.Parts` closure these are found in
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
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Raises:
        InputError: If gamma is not in (0, 1].

    Reference: Du et al. 2022, arXiv:2110.03141.
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module | None = None,
        *,
        rho: float = RHO,
        beta: float = 0.6,
        gamma: float = 0.5,
        seed: int = 0,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        if not 0 < gamma <= 1:
            raise InputError(f"Expected gamma in (0, 1], but got {gamma:g}. Try gamma=0.5.")
        super().__init__(
            base,
            model,
            rho=rho,
            ascent=SomeWeights(beta, seed),
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )
        self.gamma = gamma
        self.needs_per_example = True

    def keep(self, grown: Tensor) -> Tensor:
        """Return the indices of the examples to keep, in their order.

        Args:
            grown: By how much each example's loss grew.

        Returns:
            round(γ·n) indices, at least one.
        """
        n = max(1, round(self.gamma * len(grown)))
        return grown.topk(n).indices.sort().values

    def reduce(self, terms: LossTerms) -> Tensor:
        """Take the clean losses down in the clean pass, keep the examples that grew most in the other."""
        step = self._ongoing.step or self._begin()
        terms, nll = read_losses(terms)
        if not step.perturbed:  # note the losses, and which of them count
            step.own.setdefault("clean", []).append((terms.per_example.detach(), terms.counted))
        elif "chosen" not in step.own:  # the n-th batch of this pass is the n-th batch of the clean one
            grown = self._grown(step, terms.per_example.detach(), len(step.perturbed_nll))
            terms = _only(terms, self._choose(grown, terms.counted), nll)
        return super().reduce(terms)

    def _grown(self, step: Step, losses: Tensor, batch: int) -> Tensor:
        """Return by how much the losses of a batch have grown since the clean pass."""
        noted = step.own.get("clean", [])
        if batch >= len(noted):
            raise InputError(f"{WHOSE_LOSS.format(type(self).__name__)} in the clean pass, too.")
        clean: Tensor = noted[batch][0]
        if clean.shape != losses.shape:
            raise InputError(
                f"Expected the same examples in both passes, but got losses of shape {tuple(losses.shape)} after "
                f"{tuple(clean.shape)}. Evaluate the same batch."
            )
        return losses - clean

    def _choose(self, grown: Tensor, counted: Tensor | None) -> Tensor:
        """Return the indices of the examples to keep, the rows; one without losses that count is no example."""
        rows = grown.reshape(len(grown), -1)
        if counted is None:
            return self.keep(rows.mean(1))
        counts = counted.reshape(rows.shape)
        places = counts.any(1).nonzero().squeeze(1)
        means = (rows * counts).sum(1)[places] / counts.sum(1)[places]
        return places[self.keep(means)] if len(places) else torch.arange(len(rows), device=rows.device)

    def _differentiate(self, step: Step, closure: Closure, scaler: GradScaler | None = None) -> Tensor:
        if not step.perturbed or not isinstance(closure, Parts) or self.gamma == 1:
            return super()._differentiate(step, closure, scaler)
        with torch.no_grad(), replaying(step.before):  # what is drawn here is drawn again for those that are kept
            grown = self._grown(step, _losses(closure), 0)
        step.own["chosen"] = kept = self._choose(grown, step.own["clean"][0][1])
        loss = super()._differentiate(step, partial(closure, kept), scaler)
        step.facts["passes"] += len(kept) / len(grown) - 1
        return loss


def _losses(closure: Parts) -> Tensor:
    terms = terms_of(closure())
    if terms is None:
        raise InputError("Expected one loss per example from Parts, but got a scalar. Use reduction='none'.")
    if len(terms.per_example) != len(closure):
        raise InputError(
            f"Expected one row of losses from Parts for each of {len(closure)} examples, but got "
            f"{len(terms.per_example)}. Keep the losses of tokens in the shape (examples, tokens)."
        )
    return terms.per_example


def _only(terms: LossTerms, kept: Tensor, nll: Tensor | None) -> LossTerms:
    """Keep some examples; what was known of the losses by where they come from is said, since that is lost."""
    log_py = None if nll is None else -nll[kept]
    return LossTerms(
        terms.per_example[kept], terms.penalty, log_py, None if terms.counted is None else terms.counted[kept]
    )
