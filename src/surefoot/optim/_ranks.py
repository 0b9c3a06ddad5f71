"""The part of a sharpness-aware step that knows of other ranks.

Ranks that climb each on their own are *apart* from the clean pass until their gradients are averaged, in the second
backward pass by DDP or after it by :meth:`AcrossRanks._meet`. Meanwhile no rank may leave the step alone, whatever
it has seen: the others would wait for it for ever.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from surefoot.errors import InputError
from surefoot.optim._distributed import Perturbation, Replicas, is_distributed, replicas_of, settle, spoiling
from surefoot.optim._norms import total_norm
from surefoot.optim._now import Now
from surefoot.optim._rules import Cadence, Descent, Rule, Slope
from surefoot.optim._wrapper import Wrapper


class AcrossRanks(Wrapper):
    """Two passes, on one rank or on several."""

    model: nn.Module | None
    descent: Descent
    cadence: Cadence
    stable: bool
    m: int | None
    _now: Now

    @property
    @abstractmethod
    def _rules(self) -> dict[str, Rule]:
        """The rules by name."""

    @property
    @abstractmethod
    def _is_due(self) -> bool:
        """Whether this step may climb."""

    @abstractmethod
    def _norm(self) -> float:
        """Return ‖g‖ of the clean gradients in place."""

    @abstractmethod
    def _note_overflow(self, norm: float, what: str) -> None:
        """Remember that something is not finite."""

    def _settle(self, perturbation: Perturbation | None) -> None:
        self.perturbation = settle(perturbation, self._rules.values(), self.m, self.parameters())
        self._insists = perturbation == "rank"
        self._known: tuple[nn.Module | None, Replicas | None] = (None, None)

    @property
    def _replicas(self) -> Replicas | None:
        """The replicas that the model is one of."""
        if self._known[0] is not self.model:
            self._known = (self.model, replicas_of(self.model))
        if self._insists and self._known[1] is None and is_distributed():
            raise InputError(
                f"Expected a DistributedDataParallel model for perturbation='rank', but got "
                f"{type(self.model).__name__}. Pass model=ddp, or leave perturbation out."
            )
        return self._known[1]

    def clean(self) -> AbstractContextManager[None]:
        """Surround the clean pass, forward and backward, of a loop without closure that runs on several ranks.

        Where the ranks climb each on their own, nothing is averaged in here. Without it, DDP averages the clean
        gradients as any others, and the ranks climb together.

        Returns:
            A context.
        """
        if self.perturbation == "rank" and self._is_due:
            self._now.apart = self._replicas
        return nullcontext() if self._now.apart is None else self._now.apart.apart()

    def _second_context(self, slope: Slope) -> AbstractContextManager[None]:
        """Surround the perturbed pass."""
        if self.descent.needs_clean and self._replicas is not None:
            self._replicas.keep(slope.grads)
        return nullcontext() if self._now.apart is None else self._telling(self._now.apart)

    @contextmanager
    def _telling(self, apart: Replicas) -> Iterator[None]:
        """Let a rank that found its clean gradient broken tell the others by the perturbed pass."""
        unshared = apart.apart() if self._meets_late else nullcontext()
        told = nullcontext() if self._now.error is None else spoiling(self.parameters())
        with unshared, told:
            try:
                yield
            except BaseException:
                apart.give_up()
                raise

    def _decisive_norm(self) -> float:
        """Return ‖g‖ as decisions see it that must be alike on all ranks: their root mean square, if one is made."""
        if self._now.agreed is None:
            norm = self._norm()
            replicas = self._replicas if self.cadence.by_norm else None
            self._now.agreed = norm if replicas is None else replicas.mean_square_root(norm)
        return self._now.agreed

    def _ends_early(self, slope: Slope) -> bool:
        """Return whether a step ends with its clean pass.

        A rank that is apart goes on, unless the others know what it knows.
        """
        if self._now.apart is not None:
            if self._now.error is None or not self.cadence.by_norm:
                return False
            for grad in slope.grads:  # a scaler looks at this rank's gradients alone
                grad.fill_(torch.inf)
        return self._now.error is not None or not (slope.params or self._now.layers)

    @property
    def _meets_late(self) -> bool:
        """Whether ranks that climbed apart must be averaged here, not by DDP while it differentiates."""
        needs = self.stable or self.descent.needs_clean or self.m is not None
        return needs or any(rule.shares for rule in self._rules.values())

    def _meet_again(self, late: bool = False) -> None:
        """End being apart, if a rank was: parts of its batch wait for each other first."""
        if self._now.apart is None or self.m is not None:
            return
        if late or self._meets_late:
            self._meet(self._now.apart)
        self._now.apart = None

    @torch.no_grad()
    def _meet(self, replicas: Replicas) -> None:
        """Average what the ranks found each on their own."""
        grads = {parameter: parameter.grad for parameter in self._moving() if parameter.grad is not None}
        stores = [grads, *(rule.to_share() for rule in self._rules.values() if rule.shares)]
        replicas.average([parameter for parameter in self.parameters() if parameter.requires_grad], stores)
        for parameter, grad in grads.items():
            parameter.grad = grad
        self._note_overflow(total_norm(list(grads.values())), "gradient norm")
