"""What a training loop hands to ``step``: a closure, what it may return, and which gradients it finds in place.

Of its losses, which are −log p_y and which count is not guessed. A tensor is −log p_y if autograd says that it is the
output of torch's ``nll_loss`` on ``log_softmax`` over the classes, without class weights, in whatever shape: label
smoothing, class weights, soft labels and other losses leave other traces.

A step leaves its gradients in place, as torch does, and the next one clears them. What has come since then, from a
micro-batch that was differentiated outside of the closure, say, must not be cleared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.optim._torch import SOFTMAX_DIM, VERSION
from surefoot.schema import LossTerms

Closure = Callable[[], Any]  # per-example losses, LossTerms, or a scalar after its own backward()
Leftovers = dict[Tensor, tuple[Tensor, int]]  # by parameter: a gradient, and how often it had been written to

WHAT_TO_RETURN = (
    'Return cross_entropy(logits, labels, reduction="none"), or call backward() on optimizer.loss(logits, labels).'
)
# Nodes that change the shape, the memory or the precision of a tensor and leave its entries and their order.
_SAME_ENTRIES = {
    f"{name}Backward0" for name in ("View", "ReshapeAlias", "UnsafeView", "Alias", "Unsqueeze", "Clone", "ToCopy")
} | {"SqueezeBackward0", "SqueezeBackward1"}
_NLL = ("NllLossBackward0", "NllLoss2DBackward0")


class Parts:
    """A closure that can evaluate a part of its batch, for optimizers that work on parts.

    m-sharpness (``SAM(…, m=16)``) and ESAM ask for parts; all others evaluate the whole batch.

    Args:
        losses: Takes a slice or a tensor of indices into the batch, gives those examples' losses.
        n: Size of the batch.

    Example:
        >>> import torch
        >>> from surefoot.optim import SAM
        >>> w = torch.nn.Parameter(torch.tensor([3.0]))
        >>> x = torch.tensor([1.0, 1.0, -1.0, -1.0])
        >>> optimizer = SAM(torch.optim.SGD([w], lr=0.5), rho=1.0, m=2)
        >>> optimizer.step(Parts(lambda part: 0.5 * w**2 + 0.0 * x[part], n=4))
        tensor(4.5000)
    """

    def __init__(self, losses: Callable[[Any], Tensor | LossTerms], n: int) -> None:
        self._losses = losses
        self._n = n

    def __call__(self, part: slice | Tensor = slice(None)) -> Tensor | LossTerms:
        """Evaluate a part of the batch; all of it by default."""
        return self._losses(part)

    def __len__(self) -> int:
        """Size of the batch."""
        return self._n


def terms_of(result: Any) -> LossTerms | None:
    """Return what a closure returned as loss terms.

    Args:
        result: What it returned.

    Returns:
        One loss per example; None for a scalar, which has been differentiated by the closure itself or will be.

    Raises:
        InputError: If it is neither.
    """
    if isinstance(result, LossTerms):
        return result
    if isinstance(result, Tensor):
        return LossTerms(result) if result.ndim > 0 else None
    raise InputError(f"Expected the closure to return losses, but got {type(result).__name__}. {WHAT_TO_RETURN}")


def read_losses(terms: LossTerms) -> tuple[LossTerms, Tensor | None]:
    """Find −log p_y of a batch's examples, and which of them count.

    Args:
        terms: What a closure or a criterion gave.

    Returns:
        The same terms, with ``counted`` where some do not; and −log p_y, None where it is neither given nor known.
    """
    losses, log_py = terms.per_example, terms.log_py
    given = None if log_py is None else -log_py
    nodes: list[Any] = [losses.grad_fn]  # from the losses back to log_softmax, without which it is another loss
    while nodes[-1] is not None and nodes[-1].name() in (*_SAME_ENTRIES, *_NLL):
        nodes.append(nodes[-1].next_functions[0][0])
    names = [node.name() for node in nodes if node is not None]
    if names[-1:] != ["LogSoftmaxBackward0"] or len(set(_NLL).intersection(names)) != 1:
        return terms, given
    if getattr(losses, VERSION, -1) != 0:  # written to since, which leaves no trace where gradients are switched off
        return terms, given
    with torch.no_grad():
        grad = weight = torch.ones_like(losses)
        for node, name in zip(nodes, names[:-1], strict=False):
            grad = node(grad)
            if name in _NLL:  # d(loss)/d(log p) is −1 at the label: −weight with class weights, −1/n in a mean, 0 if
                weight, taken = grad.sum(1).neg_(), grad.shape  # ignored
        dim, made = int(getattr(nodes[-1], SOFTMAX_DIM, -1)), grad.shape
        dim = dim + len(made) - 2**64 if dim >= 2**63 else dim
        by_row = dim == len(made) - 1 and len(taken) == 2 and made[-1] == taken[-1]  # (…, classes), seen as rows
        by_column = dim == 1 and made[:2] == taken[:2]  # (n, classes, …)
        counted = weight == 1
        if not (by_row or by_column):
            return terms, given
        if not bool(counted.all()):
            if bool((weight[~counted] != 0).any()):
                return terms, given
            if terms.counted is None:
                terms = terms._replace(counted=counted.reshape(losses.shape))
    return terms, losses if given is None else given


def only_counted(terms: LossTerms, nll: Tensor | None) -> tuple[LossTerms, Tensor | None]:
    """Leave out the examples that do not count.

    Args:
        terms: With ``counted``.
        nll: −log p_y of all examples; None where it is not known.

    Returns:
        Terms and −log p_y of the examples that count.

    Raises:
        InputError: If none does.
    """
    losses, counted = terms.per_example, terms.counted
    if counted is None or not bool(counted.any()):
        raise InputError(
            f"Expected at least one example that counts, but all {losses.numel()} are ignored. "
            "Leave such batches out, or look at the labels: torch ignores those that are −100."
        )
    kept = losses[counted]
    log_py = None if terms.log_py is None else terms.log_py[counted]
    return LossTerms(kept, terms.penalty, log_py), kept if nll is losses else None if nll is None else nll[counted]


def refuse_clipping(closure: partial[Any]) -> None:
    """Refuse Lightning's closure where it clips: it would clip the gradient that is climbed along, too.

    Args:
        closure: A closure with arguments, of which Lightning's has its module as the first.

    Raises:
        InputError: If it is Lightning's, and its trainer clips.
    """
    trainer = getattr(closure.args[0], "trainer", None) if closure.args else None
    if clip := getattr(trainer, "gradient_clip_val", None):
        raise InputError(
            f"Expected to clip the gradient that is stepped on, but Lightning's gradient_clip_val={clip} would clip "
            "the clean one, too. Pass Trainer(callbacks=[SharpnessAwareCallback()]), from "
            "surefoot.integrations.lightning."
        )


def mark_used(params: Iterable[Tensor]) -> None:
    """Note on the gradients in place that they have been used, by this optimizer or another one of ours."""
    for parameter in params:
        if (grad := parameter.grad) is not None:
            grad.used_version = getattr(grad, VERSION, -1)  # type: ignore[attr-defined]  # goes with the gradient


def unused(params: Iterable[Tensor]) -> Leftovers:
    """Find the gradients that came, or were added to, since they were last marked.

    Args:
        params: Parameters, some of which may have a gradient.

    Returns:
        Those gradients; not the ones that have been set to zero, which hold nothing.
    """
    found = {}
    for parameter in params:
        if (grad := parameter.grad) is not None:
            version = getattr(grad, VERSION, -1)
            is_used = getattr(grad, "used_version", None) == version
            if not is_used and (grad.layout != torch.strided or bool(grad.any())):
                found[parameter] = grad, version
    return found


def refuse(leftovers: Leftovers) -> None:
    """Refuse to go on where a closure has left gradients from before it in place.

    Args:
        leftovers: What was in place before the closure was evaluated.

    Raises:
        InputError: If one of them still is: it belongs to a micro-batch of which only the gradient is left.
    """
    if any(parameter.grad is grad for parameter, (grad, _) in leftovers.items()):
        raise InputError(
            "Expected a closure that evaluates the whole batch, but got one that adds to gradients which no step has "
            "used: the perturbed pass needs those micro-batches again. Evaluate all of them in one closure, or in "
            "both passes of a loop with optimizer.perturbed(); call optimizer.zero_grad() before step() if these "
            "gradients are not wanted."
        )


def was_differentiated(params: Iterable[Tensor], leftovers: Leftovers) -> bool:
    """Return whether a closure has called ``backward()`` itself: some gradient is new, or has been added to."""
    for parameter in params:
        if parameter.grad is not None:
            grad, version = leftovers.get(parameter, (None, 0))
            if parameter.grad is not grad or getattr(grad, VERSION, -1) != version:
                return True
    return False
