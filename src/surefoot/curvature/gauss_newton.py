"""The Gauss–Newton matrix of the mean loss."""

from __future__ import annotations

import functools
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from surefoot.curvature.logit_hessian import LogitProduct, logit_gradient, logit_product
from surefoot.curvature.objective import LossFunction, Weights, chunks, cross_entropy, still, substituted
from surefoot.curvature.operator import Operator
from surefoot.errors import OptionError

Form = Literal["reverse", "forward", "auto"]
Push = Callable[[list[Tensor]], Tensor]
_FASTEST: WeakKeyDictionary[nn.Module, Form] = WeakKeyDictionary()


@functools.cache
def _load_forward_mode() -> None:
    """Let torch load its forward-mode rules, which warns about torch's own use of a deprecated compiler."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


class _Linearization:
    """One chunk's recorded logits with the two maps v → Jv and w → Jᵀw."""

    def __init__(self, owner: GaussNewton, inputs: Tensor, labels: Tensor, cotangent: Tensor | None) -> None:
        self.weights = owner._weights
        self.logits = owner._model(inputs)
        self.middle: LogitProduct = logit_product(owner._loss, self.logits, labels, owner._n)
        self.pulled: Tensor | None = None
        if owner._share > 0:
            cotangent = _mixed(logit_gradient(owner._loss, self.logits, labels, owner._n), cotangent, owner._share)
        make = self._reverse if owner.form == "reverse" else self._forward
        self.push: Push = make(owner._model, inputs, cotangent)

    def _reverse(self, model: nn.Module, inputs: Tensor, cotangent: Tensor | None) -> Push:
        """Jv by differentiating the linear map u → Jᵀu; its value at the given u comes for free."""
        u = (torch.zeros_like(self.logits) if cotangent is None else cotangent).detach().requires_grad_()
        grads = torch.autograd.grad(self.logits, self.weights.params, u, create_graph=True, allow_unused=True)
        live = [i for i, grad in enumerate(grads) if grad is not None]
        outputs = [grad for grad in grads if grad is not None]
        if cotangent is not None:
            self.pulled = self.weights.flat(grads)
        return lambda parts: torch.autograd.grad(outputs, u, [parts[i] for i in live], retain_graph=True)[0]

    def _forward(self, model: nn.Module, inputs: Tensor, cotangent: Tensor | None) -> Push:
        """Jv by forward mode: one more forward pass that carries tangents."""
        if cotangent is not None:
            self.pulled = self.weights.pull([self.logits], [cotangent])
        _load_forward_mode()

        def push(parts: list[Tensor]) -> Tensor:
            with forward_ad.dual_level(), torch.no_grad():
                params = self.weights.params
                duals = [forward_ad.make_dual(p.detach(), part) for p, part in zip(params, parts, strict=True)]
                with substituted(model, params, duals):
                    tangent = forward_ad.unpack_dual(model(inputs)).tangent
            return torch.zeros_like(self.logits) if tangent is None else tangent

        return push


def _mixed(slope: Tensor, cotangent: Tensor | None, share: float) -> Tensor:
    """Mix a share of the loss's own slope into a cotangent, both at unit length."""
    slope = slope / slope.norm().clamp_min(torch.finfo(slope.dtype).tiny)
    if cotangent is None:
        return slope
    mixed: Tensor = cotangent / cotangent.norm().clamp_min(torch.finfo(slope.dtype).tiny) + share * slope
    return mixed


class GaussNewton(Operator):
    r"""Gauss–Newton matrix :math:`\tfrac1n \sum_i J_i^\top H_{z,i} J_i` of the mean loss, at the weights as they are.

    :math:`J_i` is the Jacobian of example i's logits in the weights and :math:`H_{z,i}` the Hessian of its loss in the
    logits. For cross-entropy it does not depend on the labels.

    Args:
        model: Any module; it is held in evaluation mode during construction and products, then put back.
        inputs: Shape ``(n, *shape)``.
        labels: Shape ``(n,)``.
        loss: One value per example, or ``LossTerms``; cross-entropy and MSE have a closed form.
        chunk: Rows per chunk; None for all at once.
        cache: Keep the graphs of all chunks between products.
        form: How Jv is made: ``reverse`` (two backward passes, good for linear layers), ``forward`` (tangents, good
            for convolutions), or ``auto``: time both once per model and keep the faster.
        cotangent: Logit-space weights ``(n, classes)``; then ``pulled`` is Jᵀ of it, at hardly any further cost. With
            last time's ``pushed`` this is a good first vector for Lanczos.
        gradient: Share of ∂L/∂z to mix into the cotangent, per chunk and by length. Without a cotangent, ``pulled``
            is then along the gradient of the loss (exactly so for one chunk).

    Attributes:
        pulled: Jᵀ cotangent, or None.
        pushed: H_z J v / n of the last product, ``(n, classes)``.

    Example:
        >>> model = nn.Linear(2, 2, bias=False)
        >>> _ = model.load_state_dict({"weight": torch.tensor([[0.8472979, 0.0], [0.0, 0.0]])})  # p = (0.7, 0.3)
        >>> matrix = GaussNewton(model, torch.tensor([[1.0, 2.0]]), torch.tensor([0])).dense()
        >>> torch.linalg.eigvalsh(matrix)[-1]  # ‖x‖² · 2 · 0.7 · 0.3
        tensor(2.1000)
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        *,
        loss: LossFunction = cross_entropy,
        chunk: int | None = None,
        cache: bool = True,
        form: Form = "auto",
        cotangent: Tensor | None = None,
        gradient: float = 0.0,
    ) -> None:
        if form not in ("reverse", "forward", "auto"):
            raise OptionError(f"Expected form reverse, forward or auto, but got {form!r}. Leave it at auto.")
        self._weights = Weights(model)
        super().__init__(self._weights.d, self._weights.dtype, self._weights.device)
        self._model, self._loss, self._n = model, loss, len(labels)
        self._chunks = chunks(inputs, labels, chunk)
        self.form: Form = fastest_form(model, inputs, labels) if form == "auto" else form
        self.pushed: Tensor | None = None
        sizes = [len(y) for _, y in self._chunks]
        given: Sequence[Tensor | None] = [None] * len(sizes) if cotangent is None else cotangent.split(sizes)
        self._kept: list[_Linearization] = []
        self._share = gradient
        wants = cotangent is not None or gradient > 0
        self.pulled = torch.zeros(self._weights.d, dtype=self.dtype, device=self.device) if wants else None
        if cache or wants:
            with still(model):
                for (x, y), u in zip(self._chunks, given, strict=True):
                    kept = _Linearization(self, x, y, u)
                    if self.pulled is not None and kept.pulled is not None:
                        self.pulled += kept.pulled
                    if cache:
                        self._kept.append(kept)

    def _fresh_linearizations(self) -> Iterator[_Linearization]:
        self._share = 0.0  # only the construction mixes
        return (_Linearization(self, *pair, None) for pair in self._chunks)

    def _product(self, v: Tensor) -> Tensor:
        result = torch.zeros_like(v)
        parts = self._weights.parts(v)
        pushed = []
        with still(self._model):
            for part in self._kept or self._fresh_linearizations():
                w = part.middle(part.push(parts))
                result += self._weights.pull([part.logits], [w])
                pushed.append(w.detach())
        self.pushed = torch.cat(pushed)
        return result


def fastest_form(model: nn.Module, inputs: Tensor, labels: Tensor, *, rows: int = 128) -> Form:
    """Time one product of either form on a few rows, once per model, and remember the faster.

    A network for which forward mode fails or gives another product gets ``reverse``.

    Args:
        model: The model.
        inputs: Some inputs.
        labels: Their labels.
        rows: How many of them to time on.

    Returns:
        ``reverse`` or ``forward``.
    """
    if model not in _FASTEST:
        x, y = inputs[:rows], labels[:rows]
        seconds: dict[Form, float] = {"reverse": _seconds(GaussNewton(model, x, y, form="reverse"))}
        if is_forward_exact(model, x, y):
            seconds["forward"] = _seconds(GaussNewton(model, x, y, form="forward"))
        _FASTEST[model] = min(seconds, key=lambda form: seconds[form])
    return _FASTEST[model]


def _seconds(operator: Operator) -> float:
    """Return the least time of three products."""
    v = torch.ones(operator.shape[0], dtype=operator.dtype, device=operator.device)
    laps = []
    for _ in range(3):
        start = time.perf_counter()
        operator @ v
        laps.append(time.perf_counter() - start)
    return min(laps)


def is_forward_exact(model: nn.Module, inputs: Tensor, labels: Tensor) -> bool:
    """Return whether forward mode gives the product that two backward passes give.

    It puts tangents in the place of registered weights: it fails where an operation has no such rule, and misses what
    reaches a weight by another way, such as a list of one's own.

    Args:
        model: The model.
        inputs: Some inputs; two rows will do.
        labels: Their labels.

    Returns:
        Whether the two agree.
    """
    reverse = GaussNewton(model, inputs, labels, form="reverse")
    v = torch.linspace(-1, 2, reverse.shape[0], dtype=reverse.dtype, device=reverse.device)
    expected = reverse @ v
    try:
        found = GaussNewton(model, inputs, labels, form="forward") @ v
    except (NotImplementedError, RuntimeError):
        return False
    return bool((found - expected).norm() <= torch.finfo(v.dtype).eps ** 0.5 * expected.norm())
