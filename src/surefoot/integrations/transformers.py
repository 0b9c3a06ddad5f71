"""Sharpness-aware optimizers in Hugging Face's Trainer.

The Trainer evaluates every micro-batch once and then calls ``optimizer.step()``. :class:`SharpnessAwareTrainerMixin`
keeps the micro-batches of a step and evaluates all of them again at the perturbed weights before the Trainer clips
and steps: what it clips, logs as ``grad_norm`` and steps on is the gradient found there.

Whose loss a step minimises: that of the Trainer, as it computes it. Methods that weigh single examples (CSAM, ESAM)
need one loss per example, which the Trainer has not. They take the cross-entropy of ``outputs.logits`` and ``labels``
instead, once its mean has turned out to be the Trainer's loss; any other is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import DivergedError, InputError
from surefoot.optim import BSAM, SharpnessAware, Wrapper
from surefoot.registry import OPTIMIZERS
from surefoot.schema import LossTerms, PartSpec
from surefoot.seeding import RngState, replaying, rng_state

try:
    from transformers import Trainer
except ImportError as error:
    raise InputError(
        "Expected transformers and accelerate, but they are not installed. Run pip install 'surefoot[transformers]'."
    ) from error

IGNORED = -100  # the label that torch and transformers leave out
Base = Trainer if TYPE_CHECKING else object


class SharpnessAwareTrainerMixin(Base):
    """Let a Trainer climb: ``class MyTrainer(SharpnessAwareTrainerMixin, Trainer)``.

    The optimizer comes in one of three ways: ``optimizers=(CSAM(AdamW(…), model), None)``, a ``create_optimizer``
    of your own that returns one, or by its name, ``method="csam:rho=0.05"``. Behind the name, the base is the optimizer
    that the training arguments ask for, with their learning rate, ``optim``, ``optim_args`` and weight-decay groups.

    Args:
        *args: What the Trainer takes.
        method: Name and options of a method that climbs, such as ``"csam:rho=0.05,gamma=1"``.
        **kwargs: What the Trainer takes.

    Raises:
        InputError: If the method is none that goes around a base, or there is an optimizer beside it.
    """

    def __init__(self, *args: Any, method: str | None = None, **kwargs: Any) -> None:
        self._method = None if method is None else _read_method(method)
        self._group: list[tuple[Any, RngState]] = []  # the step's micro-batches, and what was drawn from in each
        self._passing: Wrapper | None = None  # the optimizer, while one of its passes is running
        self._means: bool | None = None  # whether the loss is a micro-batch's mean, whatever num_items_in_batch says
        super().__init__(*args, **kwargs)
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

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the Trainer's loss, or in training that of the optimizer, which knows in which pass it is called."""
        if self._passing is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        labels = inputs.get("labels")
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if self._passing.needs_per_example:
            loss = self._loss_by_examples(self._passing, loss, outputs, labels, num_items_in_batch)
        elif num_items_in_batch is not None and self.args.n_gpu <= 1:
            loss = self._normalised(loss, outputs, labels, num_items_in_batch)
        return (loss, outputs) if return_outputs else loss

    def loss_terms(self, outputs: Any, labels: Any) -> LossTerms:
        """Return one loss per example, or per token, for methods that weigh them. Override it for another loss.

        This one is the cross-entropy with the label smoothing that the training arguments ask for, over tokens that are
        shifted where the model's own loss shifts them. Where another one is not torch's cross-entropy as it is, let it
        give ``log_py`` as well, and ``counted`` where some labels are ignored.

        Args:
            outputs: What the model returned.
            labels: Of the micro-batch; None where it has none.

        Returns:
            The losses, of the shape of the labels.

        Raises:
            InputError: If there are no logits and class indices that belong together.
        """
        logits = outputs.get("logits") if isinstance(outputs, Mapping) else None
        if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)) or labels.is_floating_point():
            raise InputError(
                "Expected outputs with logits and class indices as labels, from which to take one loss per example, "
                f"but got {_kind(logits)} and {_kind(labels)}. Override loss_terms(outputs, labels) of the Trainer, or "
                "take sam, which needs no more than the Trainer's own loss."
            )
        labels = labels.to(logits.device)
        if getattr(self, "_loss_shifts_labels", False):  # the token at one place is predicted by those before it
            logits, labels = logits[..., :-1, :], labels[..., 1:]
        if logits.shape[:-1] != labels.shape:
            raise InputError(
                f"Expected logits of shape (examples, …, classes) for labels of shape {tuple(labels.shape)}, but got "
                f"{tuple(logits.shape)}. Override loss_terms(outputs, labels) of the Trainer, or take sam."
            )
        logits = (logits.float() if logits.element_size() < 4 else logits).movedim(-1, 1)
        nll = F.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORED)
        if self.label_smoother is None:
            return LossTerms(nll)
        smoothing = self.label_smoother.epsilon
        losses = F.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORED, label_smoothing=smoothing)
        return LossTerms(losses, log_py=-nll, counted=labels != IGNORED)

    def _loss_by_examples(self, optimizer: Wrapper, loss: Tensor, outputs: Any, labels: Any, num_items: Any) -> Tensor:
        """Return the optimizer's loss of a micro-batch: of the size that the Trainer's has, or should have."""
        if self.args.n_gpu > 1:
            raise InputError(
                f"Expected one GPU per process for {type(optimizer).__name__}, which weighs single examples, but got "
                f"{self.args.n_gpu}. Start the script with torchrun."
            )
        terms = self.loss_terms(outputs, labels)
        counted = self._count(labels)
        if counted == 0 and bool(loss == 0):
            return loss  # other micro-batches of this step have labels that count
        share, whole = self._share(counted, num_items)
        if type(self).loss_terms is SharpnessAwareTrainerMixin.loss_terms:
            mean = _sum(terms) / max(1, counted)
            if loss.isfinite() and not any(self._close(loss, mean * size) for size in (share, whole)):
                raise InputError(
                    f"Expected the cross-entropy of outputs.logits and labels, of which {type(optimizer).__name__} "
                    f"weighs single examples, but got another loss: {loss.item():.6g} where that is "
                    f"{mean * share:.6g}. Override loss_terms(outputs, labels) of the Trainer, or take sam."
                )
        return optimizer.reduce(terms) * share

    def _normalised(self, loss: Tensor, outputs: Any, labels: Any, num_items: Any) -> Tensor:
        """Return the Trainer's loss of a micro-batch as a part of the step's.

        Some models take ``num_items_in_batch`` and return a mean all the same, BERT's heads among them. The Trainer
        then adds up the means of all micro-batches, and of all ranks, as if they were parts of one.
        """
        share, whole = self._share(counted := self._count(labels), num_items)
        if self._means is None and counted and not math.isclose(share, whole):
            try:
                with torch.no_grad():
                    mean = _sum(SharpnessAwareTrainerMixin.loss_terms(self, outputs, labels)) / counted
            except InputError:  # another loss, about which nothing is known
                self._means = False
            else:
                is_nearer = abs(loss.item() - mean * whole) < abs(loss.item() - mean * share)
                self._means = is_nearer and self._close(loss, mean * whole)
        return loss * (share / whole) if self._means else loss

    def _count(self, labels: Any) -> int:
        """Count a micro-batch's labels as the Trainer does for ``num_items_in_batch``."""
        if not isinstance(labels, Tensor):
            return 0
        shifts = getattr(self, "_loss_shifts_labels", False)
        return int((labels[..., 1:] if shifts else labels).ne(IGNORED).sum())

    def _share(self, counted: int, num_items: Any) -> tuple[float, float]:
        """Return by what a micro-batch's mean is multiplied in the loss of the step, and by what if it were all."""
        if num_items is None or getattr(self, "loss_is_scaled_for_ga", None) is False:
            return 1.0, 1.0
        together = self.args.average_tokens_across_devices  # DDP will divide by the number of ranks
        ranks = self.accelerator.num_processes // self.get_tp_size() if together else 1
        return counted * ranks / int(num_items), float(ranks)

    def _close(self, loss: Tensor, value: float) -> bool:
        """Return whether the Trainer's loss is a number, as far as its precision says."""
        is_rounded = self.accelerator.mixed_precision != "no" or next(self.model.parameters()).element_size() < 4
        return math.isclose(loss.item(), value, rel_tol=0.02 if is_rounded else 1e-4, abs_tol=1e-6)

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


def _read_method(text: str) -> PartSpec:
    """Read the name and options of a method that goes around the Trainer's own optimizer."""
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
    return part.spec(given)


def _sum(terms: LossTerms) -> float:
    """Add up the losses of a micro-batch; torch gives a zero for those that are ignored."""
    return terms.per_example.detach().sum().item()


def _kind(value: Any) -> str:
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
