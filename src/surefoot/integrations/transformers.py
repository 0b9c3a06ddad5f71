"""Sharpness-aware optimizers in Hugging Face's Trainer.

The Trainer evaluates every micro-batch once and then calls ``optimizer.step()``. :class:`SharpnessAwareTrainerMixin`
keeps the micro-batches of a step and evaluates all of them again at the perturbed weights before the Trainer clips
and steps: what it clips, logs as ``grad_norm`` and steps on is the gradient found there.
"""

from __future__ import annotations

from contextlib import nullcontext
from copy import copy
from typing import Any

from torch import Tensor, nn

from surefoot.errors import DivergedError, InputError
from surefoot.integrations._trainer_loss import Trainer
from surefoot.integrations._trainer_steering import TrainerSteering
from surefoot.method import parse_method
from surefoot.optim import BSAM, SharpnessAware, Wrapper
from surefoot.registry import OPTIMIZERS
from surefoot.schema import PartSpec
from surefoot.seeding import RngState, replaying, rng_state


class SharpnessAwareTrainerMixin(TrainerSteering):
    """Let a Trainer climb: ``class MyTrainer(SharpnessAwareTrainerMixin, Trainer)``.

    The optimizer comes in one of three ways: ``optimizers=(CSAM(AdamW(…), model), None)``, a ``create_optimizer``
    of your own that returns one, or by its name, ``method="csam:rho=0.05"``. Behind the name, the base is the optimizer
    that the training arguments ask for, with their learning rate, ``optim``, ``optim_args`` and weight-decay groups.

    With ``method="csam:tune=auto"``, each evaluation of the ``eval_dataset`` during training turns ρ, γ and weight
    decay against over-confidence; see :class:`~surefoot.steering.KeepCalibrated`, which is ``trainer.keeper`` then.

    Args:
        *args: What the Trainer takes.
        method: Name and options of a method that climbs, such as ``"csam:rho=0.05,gamma=1"``.
        **kwargs: What the Trainer takes.

    Raises:
        InputError: If the method is none that goes around a base, there is an optimizer beside it, or it is to be tuned
            without evaluations.
    """

    def __init__(self, *args: Any, method: str | None = None, **kwargs: Any) -> None:
        self._method: PartSpec | None = None
        if method is not None:
            self._method, self._tune = _read_method(method)
        self._group: list[tuple[Any, RngState]] = []  # the step's micro-batches, and what was drawn from in each
        self._check_given(args, kwargs)
        super().__init__(*args, **kwargs)
        self._check_strategy()
        if method is not None and self.optimizer is not None:
            raise InputError(
                f"Expected one optimizer, but got method={method!r} and optimizers=({type(self.optimizer).__name__}, "
                "…). Leave one of them out."
            )

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """Return the optimizer; where a method was named, around the one that the training arguments ask for."""
        is_new = self.optimizer is None
        base = super().create_optimizer(*args, **kwargs)
        if self._method is None or not is_new:
            return base
        model = args[0] if args else kwargs.get("model")
        self.optimizer = OPTIMIZERS.build(self._method, base, self.model if model is None else model)
        if self._tune is not None and isinstance(self.optimizer, Wrapper):
            self._keep_state_with(self.optimizer)
        return self.optimizer

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Return the micro-batches of the next step; one that was broken off is forgotten."""
        self._group = []
        return super().get_batch_samples(*args, **kwargs)

    def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Evaluate a micro-batch; behind the last one of a step, all of them again at the perturbed weights.

        Returns the loss of the micro-batch at the weights before the step.
        """
        optimizer = self._find_optimizer(model)
        if not isinstance(optimizer, SharpnessAware):
            return super().training_step(model, inputs, num_items_in_batch)
        if not self._group:
            optimizer.zero_grad()
        before = rng_state()
        with optimizer.clean():
            loss = self._evaluate_micro_batch(optimizer, model, inputs, num_items_in_batch)
        self._group.append((inputs, before))
        if self.accelerator.sync_gradients:  # the Trainer is about to step
            group, self._group = self._group, []
            self._climb(optimizer, model, group, num_items_in_batch)
        return loss

    def _climb(self, optimizer: SharpnessAware, model: nn.Module, group: list[Any], num_items: Any) -> None:
        """Evaluate all micro-batches at the perturbed weights; DDP shares their gradients with the last one."""
        scaler = self.accelerator.scaler
        try:
            climbs = scaler is not None or optimizer.climbs
        except DivergedError:
            if optimizer.nonfinite == "raise":
                raise
            climbs = False  # the step will find it out once more, and skip itself
        if not climbs:
            return
        with optimizer.perturbed(scaler):
            for number, (inputs, before) in enumerate(group, start=1):
                shared = nullcontext() if number == len(group) else self.accelerator.no_sync(model)
                with shared, replaying(before):  # callbacks may have drawn between two micro-batches
                    self._evaluate_micro_batch(optimizer, model, inputs, num_items)

    def _evaluate_micro_batch(self, optimizer: Wrapper, model: nn.Module, inputs: Any, num_items: Any) -> Tensor:
        """Let the Trainer evaluate and differentiate a micro-batch, with this optimizer's loss."""
        self._passing = optimizer
        try:
            return super().training_step(model, copy(inputs), num_items)  # which may take labels out of it
        finally:
            self._passing = None

    def _find_optimizer(self, model: nn.Module) -> Wrapper:
        """Return the optimizer inside accelerate's, and let it know the model as the Trainer has wrapped it."""
        found: Any = self.optimizer
        while not isinstance(found, Wrapper) and hasattr(found, "optimizer"):
            found = found.optimizer
        if not isinstance(found, Wrapper) or self.is_deepspeed_enabled:
            engine = "DeepSpeed's" if self.is_deepspeed_enabled else type(found).__name__
            raise InputError(
                f"Expected an optimizer of surefoot's, but got {engine}, which would step alone. Pass "
                'method="csam:rho=0.05" or optimizers=(CSAM(AdamW(…), model), None), or use transformers.Trainer.'
            )
        if found.model is None or found.model is self.model:
            found.model = model  # under DDP, ranks climb each on their own only if they know it
        if isinstance(found, BSAM) and self.args.gradient_accumulation_steps > 1:
            raise InputError(
                "Expected gradient_accumulation_steps=1 with bSAM, whose clean pass runs at one posterior sample, "
                f"but got {self.args.gradient_accumulation_steps}. Take larger batches, or another method."
            )
        return found


class SurefootTrainer(SharpnessAwareTrainerMixin, Trainer):
    """Hugging Face's Trainer with an optimizer that climbs; everything else is the Trainer's own.

    ``SurefootTrainer(model, args, method="csam:rho=0.05", train_dataset=…)``, or ``optimizers=(CSAM(…), None)`` in the
    place of ``method``. See :class:`SharpnessAwareTrainerMixin`.
    """


def _read_method(text: str) -> tuple[PartSpec, str | None]:
    """Read the name and options of a method that goes around the Trainer's own optimizer, and what of it to tune."""
    part, given = OPTIMIZERS.read(text)
    if not part.facts.get("wraps"):
        raise InputError(
            f"Expected a method that goes around another optimizer, but got {part.name}. Write method='csam'; for "
            f"{part.name} alone, use transformers.Trainer."
        )
    if own := {"base", "lr", "weight_decay"}.intersection(given):
        raise InputError(
            f"Expected options of {part.name} alone, but got {min(own)}, which is the Trainer's. Write it in "
            "TrainingArguments: optim=, learning_rate=, weight_decay=."
        )
    tune = parse_method(text).tune if "tune" in given else None
    if "tune" not in part.options:
        given.pop("tune", None)
    return part.spec(given), tune
