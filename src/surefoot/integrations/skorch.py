"""surefoot's optimizers inside a skorch net.

>>> import torch
>>> from skorch import NeuralNetClassifier
>>> from surefoot import CSAM
>>> class Net(SharpnessAwareMixin, NeuralNetClassifier):
...     pass
>>> net = Net(torch.nn.Linear, module__in_features=4, module__out_features=3, criterion=torch.nn.CrossEntropyLoss,
...           optimizer=CSAM, optimizer__base_optimizer=torch.optim.SGD, optimizer__rho=0.1, lr=0.1)

skorch hands its closure to the optimizer, so SAM climbs in a plain net too. What the mixin adds: CSAM and ESAM get the
losses of single examples; callbacks that clip see the gradients that are stepped on, once per step, not those that are
climbed along; BatchNorm layers of the module are known; and options that change after the net was made do change.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.errors import InputError
from surefoot.optim import Wrapper
from surefoot.schema import LossTerms

try:
    from skorch.utils import TeeGenerator, to_tensor
except ImportError as _missing:
    raise ImportError(
        "Expected skorch to be installed, but it is not. Run pip install 'surefoot[sklearn]'."
    ) from _missing


if TYPE_CHECKING:
    from skorch import NeuralNet as Base
else:
    Base = object


class SharpnessAwareMixin(Base):  # type: ignore[misc]  # skorch has no types
    """Put it before the net's class: ``class Net(SharpnessAwareMixin, NeuralNetClassifier)``.

    The optimizer is given as skorch takes one: ``optimizer=CSAM``, ``optimizer__base_optimizer=torch.optim.SGD``, and
    options of both with ``optimizer__`` before them. With an optimizer of torch the net is as it was.

    CSAM and ESAM weigh single examples by p_y. It is known for ``CrossEntropyLoss``, ``NLLLoss`` (of probabilities, as
    skorch takes them) and ``BCEWithLogitsLoss``, with class weights, label smoothing and ignored labels too. A
    ``get_loss`` of one's own ends in ``super().get_loss(…)``, to which it may add penalties.
    """

    def initialize_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """Make the optimizer, and tell it where the BatchNorm layers are."""
        made = super().initialize_optimizer(*args, **kwargs)
        optimizer = getattr(self, "optimizer_", None)
        if isinstance(optimizer, Wrapper) and optimizer.model is None:
            optimizer.model = self.module_
        return made

    def train_step(self, batch: Any, **fit_params: Any) -> Any:
        """Make one step: as many passes as the optimizer wants, then ``on_grad_computed``, then the base's step."""
        optimizer = getattr(self, "optimizer_", None)
        if not isinstance(optimizer, Wrapper):
            return super().train_step(batch, **fit_params)
        if len(self._optimizers) > 1:
            raise InputError(
                f"Expected one optimizer around {type(optimizer).__name__}'s closure, but got "
                f"{', '.join(self._optimizers)}. Give all parameters to one."
            )
        steps = self.get_train_step_accumulator()

        def closure() -> Tensor:
            optimizer.zero_grad()
            step = self.train_step_single(batch, **fit_params)
            steps.store_step(step)
            loss: Tensor = step["loss"]
            return loss

        with notifying(self, optimizer, batch):
            optimizer.step(closure)
        return steps.get_step()

    def get_loss(self, y_pred: Any, y_true: Any, *args: Any, training: bool = False, **kwargs: Any) -> Tensor:
        """Return the loss of a batch; in training, of the pass that is running."""
        inherited = super().get_loss
        optimizer = getattr(self, "optimizer_", None)
        if not training or not isinstance(optimizer, Wrapper) or not optimizer.needs_per_example:
            loss: Tensor = inherited(y_pred, y_true, *args, training=training, **kwargs)
            return loss
        criterion = self.criterion_
        with _per_example(criterion):
            losses = inherited(y_pred, y_true, *args, training=training, **kwargs)
        labels = to_tensor(y_true, device=self.device)
        return optimizer.reduce(_terms(criterion, losses, y_pred, labels))

    def set_params(self, **kwargs: Any) -> Any:
        """Set parameters; an option of our optimizers that groups do not have makes the optimizer anew."""
        done = super().set_params(**kwargs)
        optimizer = getattr(self, "optimizer_", None)
        given = {
            key.removeprefix("optimizer__"): value for key, value in kwargs.items() if key.startswith("optimizer__")
        }
        if not given or not isinstance(optimizer, Wrapper):
            return done
        own = set(inspect.signature(type(optimizer).__init__).parameters) | {"base_optimizer"}
        if changed := sorted((own & set(given)) - set(optimizer.group_options)):
            for name in changed:  # skorch has written them into the groups, where nobody reads them
                setattr(self, f"optimizer__{name}", given[name])
            self._initialize_optimizer(reason=f"Re-initializing optimizer for its {', '.join(changed)}.")
        return done


@contextmanager
def notifying(net: Any, optimizer: Wrapper, batch: Any) -> Iterator[None]:
    """Call a net's ``on_grad_computed`` once in the steps of the block: for the gradient that is stepped on.

    Args:
        net: A skorch net.
        optimizer: Makes the step.
        batch: What the callbacks are told.
    """

    def notify(*_: Any) -> None:
        named = TeeGenerator(net.get_all_learnable_params())
        net.notify("on_grad_computed", named_parameters=named, batch=batch, training=True)

    handle = optimizer.register_step_pre_hook(notify)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _per_example(criterion: nn.Module) -> Iterator[None]:
    """Let a criterion give the loss of each example for a while."""
    before = getattr(criterion, "reduction", None)
    if before not in ("mean", "sum"):
        raise InputError(
            f"Expected a criterion that can give one loss per example, but got {type(criterion).__name__} with "
            f"reduction {before!r}. Take torch.nn.CrossEntropyLoss, or SAM."
        )
    criterion.reduction = "none"  # type: ignore[assignment]  # an attribute of torch's losses
    try:
        yield
    finally:
        criterion.reduction = before


def _terms(criterion: Any, losses: Tensor, y_pred: Any, labels: Tensor) -> LossTerms:
    """Say which losses count, what each weighs in torch's mean, and what p_y is where the losses do not tell."""
    outputs = y_pred[0] if isinstance(y_pred, tuple) else y_pred
    if losses.ndim < 1 or losses.shape[:1] != labels.shape[:1]:
        raise InputError(
            f"Expected one loss per example, but got {tuple(losses.shape)} for {len(labels)}. "
            "End your get_loss in super().get_loss(…), or take SAM."
        )
    is_sum = criterion.reduction == "sum"  # while the optimizer takes the mean
    if isinstance(criterion, nn.BCEWithLogitsLoss):
        is_plain = criterion.weight is None and criterion.pos_weight is None
        nll = losses if is_plain else F.binary_cross_entropy_with_logits(outputs, labels, reduction="none")
        return LossTerms(losses * losses.numel() if is_sum else losses, log_py=-nll)
    if not isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss) or labels.is_floating_point():
        return LossTerms(losses * losses.numel() if is_sum else losses)
    is_entropy = isinstance(criterion, nn.CrossEntropyLoss)
    if is_entropy and criterion.weight is None and not criterion.label_smoothing and not is_sum:
        return LossTerms(losses)  # which are −log p_y, as the optimizer sees by itself
    counted = labels != criterion.ignore_index
    # To probabilities skorch adds so much before it takes their logarithm.
    log_p = outputs.log_softmax(1) if is_entropy else torch.log(outputs + torch.finfo(outputs.dtype).eps)
    log_py = log_p.gather(1, labels.where(counted, 0).unsqueeze(1)).squeeze(1)
    if is_sum:
        losses = losses * counted.sum()
    elif criterion.weight is not None:  # torch divides by the sum of the weights
        losses = losses * (counted.sum() / criterion.weight[labels[counted]].sum())
    return LossTerms(losses, log_py=log_py, counted=counted)
