"""What is known of a batch's losses: which are −log p_y, and which of them count.

Neither is guessed. A tensor is −log p_y if autograd says that it is the output of torch's ``nll_loss`` on
``log_softmax`` over the classes, without class weights, in whatever shape: label smoothing, class weights, soft labels
and other losses leave other traces. The same node knows the labels, hence the ones to be ignored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surefoot.errors import InputError
from surefoot.schema import LossTerms

# Change the shape, the memory or the precision of a tensor and leave its entries and their order.
_SAME_ENTRIES = {
    f"{name}Backward0" for name in ("View", "ReshapeAlias", "UnsafeView", "Alias", "Unsqueeze", "Clone", "ToCopy")
} | {"SqueezeBackward0", "SqueezeBackward1"}
_NLL = ("NllLossBackward0", "NllLoss2DBackward0")


def understood(terms: LossTerms) -> tuple[LossTerms, Tensor | None]:
    """Leave out the examples that do not count, and find −log p_y of the others.

    Args:
        terms: What a closure or a criterion gave.

    Returns:
        Terms of the examples that count, and their −log p_y; None where it is neither given nor known.

    Raises:
        InputError: If there are no examples, or none that counts.
    """
    terms, is_nll = with_counted(terms)
    losses = terms.per_example
    if losses.numel() == 0:
        raise InputError("Expected at least one example, but got an empty batch. Leave empty batches out.")
    if terms.counted is None:
        return terms, losses if is_nll else None if terms.log_py is None else -terms.log_py
    if not bool(terms.counted.any()):
        raise InputError(
            f"Expected at least one example that counts, but all {losses.numel()} are ignored. "
            "Leave such batches out, or look at the labels: torch ignores those that are −100."
        )
    log_py = None if terms.log_py is None else terms.log_py[terms.counted]
    losses = losses[terms.counted]
    return LossTerms(losses, terms.penalty, log_py), losses if is_nll else None if log_py is None else -log_py


def with_counted(terms: LossTerms) -> tuple[LossTerms, bool]:
    """Return which examples count where the losses show it, and whether the losses are −log p_y.

    Args:
        terms: What a closure or a criterion gave.

    Returns:
        The same terms, with ``counted`` where some do not; and whether ``per_example`` is known to be −log p_y, which
        is left open where ``log_py`` is given.
    """
    node = _cross_entropy(terms.per_example)
    if node is None:
        return terms, False
    if terms.counted is None:
        index = int(node._saved_ignore_index)
        ignored = node._saved_target == (index - 2**64 if index >= 2**63 else index)
        if bool(ignored.any()):
            terms = terms._replace(counted=~ignored.reshape(terms.per_example.shape))
    return terms, terms.log_py is None


def _cross_entropy(losses: Tensor) -> Any:
    """Find the node of ``nll_loss`` if these losses are its output, on log-probabilities; None if they are not."""
    if losses._version != 0:  # written to since, which leaves no trace where gradients are switched off
        return None
    node = _before_reshaping(losses.grad_fn)
    if node is None or node.name() not in _NLL or node._saved_weight is not None or node._saved_reduction != 0:
        return None
    softmax = _before_reshaping(node.next_functions[0][0])
    if softmax is None or softmax.name() != "LogSoftmaxBackward0":
        return None
    made, taken = softmax._saved_result.shape, node._saved_self.shape
    dim = int(softmax._saved_dim)
    dim = dim + len(made) - 2**64 if dim >= 2**63 else dim
    by_row = dim == len(made) - 1 and len(taken) == 2 and made[-1] == taken[-1]  # (…, classes), seen as rows
    by_column = dim == 1 and made[:2] == taken[:2]  # (n, classes, …)
    return node if by_row or by_column else None


def _before_reshaping(node: torch.autograd.graph.Node | None) -> Any:
    while node is not None and node.name() in _SAME_ENTRIES:
        node = node.next_functions[0][0]
    return node
