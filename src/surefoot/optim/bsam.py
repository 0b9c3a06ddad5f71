"""bSAM: SAM as variational inference, with a posterior to predict from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from surefoot.errors import InputError
from surefoot.optim._passes import with_weights
from surefoot.optim._sharded import spread_like
from surefoot.optim.rules import Ascent, CleanGradient, Nonfinite, Perturbation
from surefoot.optim.sharpness_aware import SharpnessAware
from surefoot.registry import OPTIMIZERS
from surefoot.seeding import generator as stream

if TYPE_CHECKING:
    from torch.amp import GradScaler

N_TRAIN = 50_000  # of CIFAR, what the authors' code takes


class PosteriorStep(Optimizer):
    """The step of bSAM on mean w, momentum m and precision s of a diagonal Gaussian N(w, 1/(N·s)).

    The gradients in place are those at the perturbed weights; :meth:`see` was told the ones at the samples.

    Args:
        params: The mean.
        lr: Learning rate.
        beta1: Decay of the momentum.
        beta2: Decay of the precision.
        damping: Keeps the precision away from zero.
        delta: Precision of the prior divided by N.
    """

    q: dict[Tensor, Tensor]
    seen: int

    def __init__(
        self, params: Iterable[Tensor], *, lr: float, beta1: float, beta2: float, damping: float, delta: float
    ) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "damping": damping, "delta": delta})
        self.forget()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take up a copied, pickled or loaded state, in which nothing has been seen."""
        super().__setstate__(state)
        self.forget()

    def precision(self, parameter: Tensor) -> Tensor:
        """Return s, which starts at 1."""
        state = self.state[parameter]
        if not state:
            state["m"], state["s"] = torch.zeros_like(parameter), torch.ones_like(parameter)
        s: Tensor = state["s"]
        return s

    def see(self, params: list[Tensor], grads: list[Tensor]) -> None:
        """Add up √s·|g| over the parts of a batch."""
        self.seen += 1
        for parameter, grad in zip(params, grads, strict=True):
            q = self.precision(parameter).sqrt().mul_(grad.abs())
            self.q[parameter] = self.q[parameter].add_(q) if parameter in self.q else q

    def mean_seen(self) -> dict[Tensor, Tensor]:
        """Return the mean of √s·|g| over the parts seen."""
        for q in self.q.values():
            q.div_(self.seen)
        self.seen = 1
        return self.q

    def forget(self) -> None:
        """Let go of what was seen."""
        self.q, self.seen = {}, 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # the wrapper evaluates, never this
        """Move m, then w with the old s, then s: the order of the authors' code."""
        for group in self.param_groups:
            beta1, beta2, delta = group["beta1"], group["beta2"], group["delta"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                s, m = self.precision(w), self.state[w]["m"]
                m.mul_(beta1).add_(w.grad, alpha=1 - beta1).add_(w, alpha=(1 - beta1) * delta)
                w.addcdiv_(m, s, value=-float(group["lr"]))
                if w in self.q:
                    s.mul_(beta2).add_(self.q[w], alpha=(1 - beta2) / self.seen)
                    s.add_((1 - beta2) * (group["damping"] + delta))
        self.forget()


class ByPrecision(Ascent):
    """ε = ρ·g/s, coordinate by coordinate, without a norm."""

    shares = True

    def __init__(self, posterior: PosteriorStep) -> None:
        super().__init__()
        self.posterior = posterior

    def climb(self, clean: CleanGradient, places: list[Tensor]) -> float | None:
        """Show the gradients to the posterior and climb."""
        self.posterior.see(clean.params, clean.grads)
        self.pending["seen"] = True
        for w, grad, place, rho in zip(clean.params, clean.grads, places, clean.rhos, strict=True):
            torch.addcdiv(w, grad, self.posterior.precision(w), value=rho, out=place)
        return None

    def to_share(self) -> dict[Tensor, Tensor]:
        """Return what the precision is updated with."""
        return self.posterior.mean_seen()

    def commit(self, groups: Sequence[dict[str, Any]] = ()) -> None:
        """Leave it at that: the posterior has made its step."""
        self.pending = {}

    def discard(self) -> None:
        """Forget a step that was not made."""
        self.pending = {}
        self.posterior.forget()


@OPTIMIZERS.register("bsam", passes=2, reference="Möllenhoff & Khan 2023, arXiv:2210.01620")
class BSAM(SharpnessAware):
    """SAM as variational inference: a mean, a precision, and samples to average predictions over.

    Bayes SAM.

    .. math:: g = ∇L(w + n/√(N s)),  ε = ρ g/s,  g̃ = ∇L(w + ε)

    then m ← β₁ m + (1 − β₁)(g̃ + δ w), w ← w − η m/s and s ← β₂ s + (1 − β₂)(√s |g| + damping + δ), with n drawn
    from N(0, 1) and N = n_train·augmentation. It is its own base optimizer. The loss that a step returns is the
    one at the sampled weights.

    To predict, average the probabilities over some ``with optimizer.sampled(generator): …``, or use the weights
    as they are for the mean.

    Args:
        params: Parameters, or parameter groups.
        model: Holds the BatchNorm layers, whose statistics must move once per step.
        lr: Learning rate η.
        rho: ρ.
        n_train: Number of training examples. None is the number that a run of surefoot's trains on; CIFAR's elsewhere.
        augmentation: By how much augmentation multiplies them.
        prior_precision: Of the Gaussian prior; δ is this divided by N.
        beta1: β₁.
        beta2: β₂.
        damping: Keeps the precision away from zero.
        m: Let parts of m examples draw and climb each on their own; the authors take an eighth of the batch.
        seed: Of the noise in training.
        stable, nonfinite, perturbation: As in :class:`~surefoot.optim.SharpnessAware`.

    Raises:
        InputError: If there is no training example.

    Reference: Möllenhoff & Khan 2023, arXiv:2210.01620; order of updates as in the authors' code.
    """

    own_base = True

    def __init__(
        self,
        params: Iterable[Any],
        model: nn.Module | None = None,
        *,
        lr: float = 0.5,
        rho: float = 0.01,
        n_train: int | None = None,
        augmentation: float = 1.0,
        prior_precision: float = 40.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        damping: float = 0.1,
        m: int | None = None,
        seed: int = 0,
        stable: bool = False,
        nonfinite: Nonfinite = "raise",
        perturbation: Perturbation | None = None,
    ) -> None:
        n_train = N_TRAIN if n_train is None else n_train
        if n_train < 1:
            raise InputError(f"Expected n_train ≥ 1, but got {n_train}. Give the number of training examples.")
        self.n = n_train * augmentation
        posterior = PosteriorStep(
            params, lr=lr, beta1=beta1, beta2=beta2, damping=damping, delta=prior_precision / self.n
        )
        self.posterior = posterior
        self.seed = seed
        super().__init__(
            posterior,
            model,
            rho=rho,
            ascent=ByPrecision(posterior),
            m=m,
            stable=stable,
            nonfinite=nonfinite,
            perturbation=perturbation,
        )

    def own_state(self) -> dict[str, Any]:
        """Give, beside the rest, the seed of the noise."""
        return {**super().own_state(), "seed": self.seed}

    def load_own_state(self, state: dict[str, Any]) -> None:
        """Remember what :meth:`own_state` gave."""
        super().load_own_state(state)
        self.seed = state["seed"]

    @contextmanager
    def sampled(self, generator: torch.Generator | None = None) -> Iterator[None]:
        """Let the weights be a sample from the posterior for a while.

        Args:
            generator: A CPU generator to draw from. Without it, the numbers are the next ones of the training's
                own stream.

        Yields:
            Nothing; the mean is back afterwards, bit for bit.
        """
        if generator is None:
            step = self._ongoing.step or self._begin()
            draw = step.own.get("draws", 0)
            step.own["draws"] = draw + 1
            draw = draw if step.apart is None else draw * step.apart.n + step.apart.rank
            generator = stream(self.seed, f"bsam/{self.t}/{draw}")
        params = [parameter for parameter in self.parameters() if parameter.requires_grad]
        with torch.no_grad():
            places = [self._sample(parameter, generator) for parameter in params]
        with with_weights(params, places, self.model):
            yield

    def _sample(self, parameter: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype).to(parameter.device)
        noise = spread_like(noise, parameter)
        return parameter + noise / (math.sqrt(self.n) * self.posterior.precision(parameter).sqrt())

    @contextmanager
    def clean(self) -> Iterator[None]:
        """Surround the clean pass, which runs at a sample; ranks that climb each on their own draw each their own."""
        with super().clean(), self.sampled():
            yield

    @contextmanager
    def perturbed(self, scaler: GradScaler | None = None) -> Iterator[None]:
        """Surround the second pass, as in :meth:`SharpnessAware.perturbed`.

        Args:
            scaler: Scaled the clean loss, and will scale the perturbed one.

        Yields:
            Nothing.

        Raises:
            InputError: If the clean pass was not made at a sample.
        """
        if not (self._ongoing.step or self._begin()).own.get("draws"):
            raise InputError(
                "Expected the clean pass at a sample from the posterior, but got one at its mean. "
                "Put it, forward and backward, into `with optimizer.clean():`."
            )
        with super().perturbed(scaler):
            yield
