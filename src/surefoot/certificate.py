"""A model on data → every theorem as left ≤ right: joins margins to curvature."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from surefoot.curvature import (
    AscentPath,
    Hessian,
    ascent_path,
    gauss_newton_top_eigenvalue,
    jacobian_norms,
    perturbed,
)
from surefoot.errors import InputError
from surefoot.margins import (
    AscentStep,
    Check,
    Evidence,
    Norm,
    ascent_checks,
    attacked_margin,
    bound_checks,
    certified_margin,
    is_linear,
    linear_margin,
    log_odds_against,
    margin_lipschitz,
)
from surefoot.modes import in_eval_mode
from surefoot.schema import Split
from surefoot.structure import rough_part


def certify(
    model_or_logits: nn.Module | Tensor,
    data: Split,
    *,
    epsilon: float | None = None,
    norm: Norm = "l2",
    rho: float | None = None,
    n_bins: int = 15,
    chunk: int | None = None,
) -> list[Check]:
    """Evaluate the theorems of both papers on a data set, in float64.

    From logits alone, what needs only margins is evaluated; from a model also curvature, with ``epsilon`` also robust
    margins and shifted data (an attack serves as the shift), with ``rho`` also the sharpness-aware step, the whole
    data set being its batch. One violated check anywhere is a bug: look for ``check.violated``.

    Args:
        model_or_logits: A model (copied to float64, left alone), or its logits ``(n, classes)``.
        data: Inputs and labels.
        epsilon: Radius for robust margins.
        norm: Of that ball.
        rho: SAM's radius.
        n_bins: Bins of the ECE.
        chunk: Rows per chunk for curvature.

    Returns:
        The checks, each with both sides, slack, whether it applies and why.

    Raises:
        InputError: If robust margins or a step are asked for without a model.

    Example:
        >>> logits = torch.tensor([[3.0, 0.0], [0.0, 1e4]])
        >>> checks = certify(logits, Split(torch.zeros(2, 1), torch.tensor([0, 1])))
        >>> [check.name for check in checks if check.violated], sum(check.applies for check in checks)
        ([], 10)
    """
    if isinstance(model_or_logits, Tensor):
        if epsilon is not None or rho is not None:
            raise InputError("Expected a model for epsilon or rho, but got logits. Pass the model.")
        return bound_checks(Evidence(model_or_logits, data.labels, n_bins))
    model = copy.deepcopy(model_or_logits).double()
    inputs, labels = data.inputs.double(), data.labels
    evidence = Evidence(
        _logits(model, inputs),
        labels,
        n_bins,
        gn_sharpness=gauss_newton_top_eigenvalue(model, inputs, labels, tol=1e-6, chunk=chunk).value,
        jacobian_norms=jacobian_norms(model, inputs),
    )
    if epsilon is not None:
        evidence = with_robust(evidence, model, inputs, epsilon, norm)
    checks = bound_checks(evidence)
    return checks + (step_checks(model, inputs, labels, rho=rho) if rho is not None else [])


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    with in_eval_mode(model), torch.no_grad():
        out: Tensor = model(inputs)
    return out


def with_robust(evidence: Evidence, model: nn.Module, inputs: Tensor, epsilon: float, norm: Norm) -> Evidence:
    """Add the best robust margins there are for this network, and an attack as shifted data.

    Args:
        evidence: What is known of the model on its inputs.
        model: A float64 model.
        inputs: The inputs, in float64.
        epsilon: Radius of the ball.
        norm: Its norm.

    Returns:
        The evidence with robust margins: exact for linear models, certified for perceptrons, else attacked, which
        are upper bounds and support no certificate.
    """
    labels = evidence.labels
    attack, shifted = attacked_margin(model, inputs, labels, epsilon=epsilon, norm=norm)
    size = partial(torch.linalg.vector_norm, ord=2 if norm == "l2" else torch.inf, dim=1)
    # Adding a small shift to a large input and taking it off again rounds twice: that much is no distance.
    rounding = 4 * torch.finfo(inputs.dtype).eps * size(inputs.flatten(1))
    found = replace(
        evidence,
        epsilon=epsilon,
        robust=attack,
        shifted=_logits(model, shifted),
        distance=(size((shifted - inputs).flatten(1)) - rounding).clamp_min(0),
    )
    try:
        lipschitz = margin_lipschitz(model, labels, norm=norm)
    except InputError:
        return found
    if is_linear(model):
        exact = linear_margin(model, inputs, labels, epsilon=epsilon, norm=norm)
        return replace(found, robust=exact, robust_kind="exact", lipschitz=lipschitz)
    lower = certified_margin(model, inputs, labels, epsilon=epsilon, norm=norm)
    return replace(found, robust=lower, robust_kind="certified", lipschitz=lipschitz)


def step_checks(model: nn.Module, inputs: Tensor, labels: Tensor, *, rho: float, n_points: int = 5) -> list[Check]:
    """Evaluate the CSAM paper's inequalities for one sharpness-aware step on a batch.

    κ_min is measured at ``n_points`` of the path. Where a lemma fails although all of them satisfy its condition, the
    condition must fail between them: the path is searched more finely for a point where the curvature along it is
    too low. If there is none, the violation stands.

    Args:
        model: A float64 model; its weights come back bit for bit.
        inputs: The batch.
        labels: Shape ``(m,)``.
        rho: ρ.
        n_points: Where to look on the path.

    Returns:
        The checks.
    """
    rough = rough_part(model)
    if not Hessian(model, inputs, labels, cache=False).gradient.any():  # nowhere to climb: the step stays where it is
        here = log_odds_against(_logits(model, inputs), labels)
        return ascent_checks(AscentStep(here, here, 0.0, rho, None, rough))
    ts = torch.linspace(0, 1, n_points, dtype=torch.float64)
    path = ascent_path(model, inputs, labels, rho=rho, ts=ts)
    checks = ascent_checks(step := _step(model, inputs, labels, path, rough))
    if any(check.violated for check in checks):
        fine = ascent_path(
            model, inputs, labels, rho=rho, ts=torch.linspace(0, 1, 201, dtype=torch.float64), eigenvalues=False
        )
        checks = ascent_checks(replace(step, kappa_min=min(step.kappa_min or 0.0, fine.along.min().item())))
    return checks


def _step(model: nn.Module, inputs: Tensor, labels: Tensor, path: AscentPath, rough: str) -> AscentStep:
    before = log_odds_against(_logits(model, inputs), labels)
    with perturbed(model, path.rho * path.direction):
        after = log_odds_against(_logits(model, inputs), labels)
    kappa = (path.kappa_min - path.kappa_error).min().item()
    return AscentStep(before, after, path.gradient_norm, path.rho, kappa, rough)
