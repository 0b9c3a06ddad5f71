"""The loss of a step that Hugging Face's Trainer makes with a sharpness-aware optimizer.

It is the Trainer's own, as it computes it. Methods that weigh single examples (CSAM, ESAM) need one loss per example,
which the Trainer has not. They take the cross-entropy of ``outputs.logits`` and ``labels`` instead, once its mean has
turned out to be the Trainer's loss; any other is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.optim import Wrapper
from surefoot.schema import LossTerms

if TYPE_CHECKING:

    class Trainer:
        """What is used of the Trainer; a type checker would read the whole of transformers for minutes."""

        args: Any
        model: Any
        optimizer: Any
        accelerator: Any
        label_smoother: Any
        state: Any
        is_in_train: bool
        is_deepspeed_enabled: bool

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def train(self, *args: Any, **kwargs: Any) -> Any: ...
        def create_optimizer(self, *args: Any, **kwargs: Any) -> Any: ...
        def create_scheduler(self, *args: Any, **kwargs: Any) -> Any: ...
        def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any: ...
        def training_step(self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor: ...
        def compute_loss(
            self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any: ...
        def evaluate(self, eval_dataset: Any = None, *args: Any, **kwargs: Any) -> Any: ...
        def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any: ...
        def get_tp_size(self) -> int: ...

    Base = Trainer
else:
    try:
        from transformers import Trainer
    except ImportError as error:
        raise InputError(
            "Expected transformers and accelerate, but they are not installed. "
            "Run pip install 'surefoot[transformers]'."
        ) from error
    Base = object  # the mixin comes before a Trainer, whichever that is

IGNORED = -100  # the label that torch and transformers leave out


class TrainerLoss(Base):
    """The losses of a Trainer's micro-batches, while an optimizer's pass is running."""

    _passing: Wrapper | None = None  # the optimizer, while one of its passes is running
    _means: bool | None = None  # whether the loss is a micro-batch's mean, whatever num_items_in_batch says

    def compute_loss(
        self, model: nn.Module, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the Trainer's loss, or in training that of the optimizer, which knows in which pass it is called."""
        if self._passing is None:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch=num_items_in_batch)
        labels = inputs.get("labels")
        found = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        loss, outputs = (found, None) if isinstance(found, Tensor) else found  # a user's may give the loss alone
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
                f"but got {kind(logits)} and {kind(labels)}. Override loss_terms(outputs, labels) of the Trainer, or "
                "take sam, which needs no more than the Trainer's own loss."
            )
        how = "Override loss_terms(outputs, labels) of the Trainer, or take sam."
        logits, labels = self.side_by_side(logits, labels, how)
        logits = (logits.float() if logits.element_size() < 4 else logits).movedim(-1, 1)
        nll = F.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORED)
        if self.label_smoother is None:
            return LossTerms(nll)
        smoothing = self.label_smoother.epsilon
        losses = F.cross_entropy(logits, labels, reduction="none", ignore_index=IGNORED, label_smoothing=smoothing)
        return LossTerms(losses, log_py=-nll, counted=labels != IGNORED)

    def side_by_side(self, logits: Tensor, labels: Tensor, how: str) -> tuple[Tensor, Tensor]:
        """Return logits beside the labels that they are for; ``how`` is what to do where that cannot be."""
        labels = labels.to(logits.device)
        if getattr(self, "_loss_shifts_labels", False):  # the token at one place is predicted by those before it
            logits, labels = logits[..., :-1, :], labels[..., 1:]
        if logits.shape[:-1] != labels.shape:
            raise InputError(
                f"Expected logits of shape (examples, …, classes) for labels of shape {tuple(labels.shape)}, but got "
                f"{tuple(logits.shape)}. {how}"
            )
        return logits, labels

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
        if type(self).loss_terms is TrainerLoss.loss_terms:
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
                    mean = _sum(TrainerLoss.loss_terms(self, outputs, labels)) / counted
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


def _sum(terms: LossTerms) -> float:
    """Add up the losses of a micro-batch; torch gives a zero for those that are ignored."""
    return terms.per_example.detach().sum().item()


def kind(value: Any) -> str:
    """Say what was given in the place of a tensor."""
    return f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
