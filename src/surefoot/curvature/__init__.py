"""Curvature of a loss: operators ``A @ v``, Lanczos, and the quantities built on them."""

from __future__ import annotations

from surefoot.curvature.eigenbasis import alignment, hessian_top_eigenpairs
from surefoot.curvature.gauss_newton import GaussNewton
from surefoot.curvature.hessian import Hessian
from surefoot.curvature.jacobian import jacobian_norms
from surefoot.curvature.krylov import Eigenpairs, lanczos
from surefoot.curvature.objective import cross_entropy, mse
from surefoot.curvature.operator import Operator
from surefoot.curvature.path import AscentPath, ascent_path, perturbed
from surefoot.curvature.preconditioned import Preconditioned, adam_diagonal
from surefoot.curvature.rayleigh import BatchSharpness, batch_sharpness
from surefoot.curvature.sharpness import Measurement, Sharpness, gauss_newton_top_eigenvalue, hessian_top_eigenvalue
from surefoot.curvature.thresholds import adam_threshold, batch_thresholds, gd_threshold

__all__ = [
    "AscentPath",
    "BatchSharpness",
    "Eigenpairs",
    "GaussNewton",
    "Hessian",
    "Measurement",
    "Operator",
    "Preconditioned",
    "Sharpness",
    "adam_diagonal",
    "adam_threshold",
    "alignment",
    "ascent_path",
    "batch_sharpness",
    "batch_thresholds",
    "cross_entropy",
    "gauss_newton_top_eigenvalue",
    "gd_threshold",
    "hessian_top_eigenpairs",
    "hessian_top_eigenvalue",
    "jacobian_norms",
    "lanczos",
    "mse",
    "perturbed",
]
