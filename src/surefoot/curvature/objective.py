"""A model as a function of one flat weight vector: its weights, its quiet mode, its loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from surefoot.errors import InputError
from surefoot.modes import in_eval_mode
from surefoot.schema import LossTerms

LossFunction = Callable[[Tensor, Tensor], Tensor | LossTerms]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return −log p_y of each example."""
    return F.cross_entropy(logits, labels, reduction="none")


def mse(logits: Tensor, labels: Tensor) -> Tensor:
    """Return (1/K) Σ_k (z_k − 1[k = y])² of each example: squared error on raw logits."""
    return (logits - F.one_hot(labels, logits.shape[-1]).to(logits)).square().mean(-1)


def total_loss(loss: LossFunction, logits: Tensor, labels: Tensor, n: int) -> Tensor:
    """Add up a chunk's share of the mean loss over ``n`` examples.

    Args:
        loss: Gives one value per example, or :class:`~surefoot.schema.LossTerms`.
        logits: Shape ``(rows, classes)``.
        labels: Shape ``(rows,)``.
        n: Number of examples in all chunks.

    Returns:
        Scalar: sum over the chunk divided by ``n``, plus the penalty of the batch.

    Raises:
        InputError: If the loss is a scalar, or couples examples that are not all in this chunk.
    """
    terms = loss(logits, labels)
    per_example, penalty = (terms, None) if isinstance(terms, Tensor) else (terms.per_example, terms.penalty)
    if per_example.shape != labels.shape[:1]:
        raise InputError(
            f"Expected one loss per example, shape {tuple(labels.shape[:1])}, but got {tuple(per_example.shape)}. "
            'Use reduction="none".'
        )
    value = per_example.sum() / n
    if penalty is None:
        return value
    if len(labels) != n:
        raise InputError(
            f"Expected all {n} examples in one chunk, because this loss couples them, but got a chunk of "
            f"{len(labels)}. Pass chunk=None."
        )
    return value + penalty


class Weights:
    """The trainable weights of a model as one vector; tied weights are there once, frozen ones not at all."""

    def __init__(self, model: nn.Module) -> None:
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise InputError("Expected a model with trainable weights, but all are frozen. Set requires_grad.")
        self.names = [name for name, _ in named]
        self.params: list[Tensor] = [p for _, p in named]
        self.sizes = [p.numel() for p in self.params]
        self.d = sum(self.sizes)
        self.dtype = self.params[0].dtype
        self.device = self.params[0].device

    def flat(self, tensors: Sequence[Tensor | None]) -> Tensor:
        """Join tensors of the weights' shapes; None counts as zeros."""
        pairs = zip(tensors, self.params, strict=True)
        return torch.cat([(torch.zeros_like(p) if t is None else t).reshape(-1) for t, p in pairs]).detach()

    def parts(self, v: Tensor) -> list[Tensor]:
        """Cut a vector into views of the weights' shapes."""
        pieces = zip(v.split(self.sizes), self.params, strict=True)
        return [piece.view_as(p) for piece, p in pieces]

    def pull(self, outputs: Sequence[Tensor], cotangents: Sequence[Tensor], *, create_graph: bool = False) -> Tensor:
        """Return Σ cotangentᵀ ∂output/∂weights as a flat vector, keeping the graph for the next time."""
        live = [(out, c) for out, c in zip(outputs, cotangents, strict=True) if out.requires_grad]
        if not live:
            return torch.zeros(self.d, dtype=self.dtype, device=self.device)
        grads = torch.autograd.grad(
            [out for out, _ in live],
            self.params,
            [c for _, c in live],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
        return self.flat(grads)


@contextmanager
def substituted(model: nn.Module, params: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[None]:
    """Let a model compute with other tensors in the place of its weights.

    A weight may be registered in several modules, and a module under several names; every place is found once, before
    anything is replaced, so that all of them get their own weight back. (``torch.func.functional_call`` goes by names,
    and what it puts back under a module's second name is not the weight.)

    Args:
        model: The model; its weights are the very same objects afterwards, also when the body raises.
        params: The weights to replace.
        values: What to compute with, one tensor for each.
    """
    by_id = {id(p): value for p, value in zip(params, values, strict=True)}
    slots = [
        (module._parameters, name, p)
        for module in model.modules()
        for name, p in module._parameters.items()
        if id(p) in by_id
    ]
    try:
        for registered, name, p in slots:
            registered[name] = by_id[id(p)]  # type: ignore[assignment]  # a tensor that is no Parameter, for a while
        yield
    finally:
        for registered, name, p in slots:
            registered[name] = p


@contextmanager
def _without_backward_hooks(model: nn.Module) -> Iterator[None]:
    """Take hooks on gradients off for a while: clipping or logging in them is no part of the loss."""
    hooked = [(p, p._backward_hooks) for p in model.parameters() if p._backward_hooks]
    names = ("_backward_hooks", "_backward_pre_hooks")
    kept = [(module, name, getattr(module, name)) for module in model.modules() for name in names]
    try:
        for p, _ in hooked:
            p._backward_hooks = None
        for module, name, hooks in kept:
            setattr(module, name, type(hooks)())
        yield
    finally:
        for p, hooks in hooked:
            p._backward_hooks = hooks
        for module, name, hooks in kept:
            setattr(module, name, hooks)


@contextmanager
def _keeping_attributes(model: nn.Module) -> Iterator[None]:
    """Let a forward pass set attributes (counters, cached features, derived weights), and undo it afterwards."""
    kept = [(module, dict(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes in kept:
            vars(module).clear()
            vars(module).update(attributes)


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """Hold the model still: evaluation mode for every module, gradients on, everything put back afterwards.

    In evaluation mode BatchNorm is a fixed affine map and dropout is off, so the loss is a function of the weights.
    Attention takes the plain kernel, because the fused ones have no second derivative on the CPU. Hooks on gradients
    are off. What a forward pass leaves on its modules is taken off again.

    Args:
        model: Its training flags are restored one by one, also when the body raises.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            in_eval_mode(model),
            _keeping_attributes(model),
            _without_backward_hooks(model),
            torch.enable_grad(),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def chunks(inputs: Tensor, labels: Tensor, size: int | None) -> list[tuple[Tensor, Tensor]]:
    """Cut a data set into chunks of at most ``size`` rows; None for one chunk.

    Args:
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        size: Rows per chunk.

    Returns:
        Pairs of inputs and labels.

    Raises:
        InputError: If there is nothing, or the sizes do not fit.
    """
    if len(inputs) != len(labels) or len(labels) == 0:
        raise InputError(
            f"Expected as many inputs as labels, and at least one, but got {len(inputs)} and {len(labels)}. "
            "Pass matching tensors."
        )
    if size is not None and size < 1:
        raise InputError(f"Expected chunks of at least one row, but got chunk={size}. None takes all rows at once.")
    rows = size or len(labels)
    return list(zip(inputs.split(rows), labels.split(rows), strict=True))
