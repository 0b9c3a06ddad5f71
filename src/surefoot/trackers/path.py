"""Curvature and loss on the way to the perturbed weights."""

from __future__ import annotations

from surefoot.curvature import ascent_path
from surefoot.errors import OptionError
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe, Scheduled, curvature_loss, optimizer_options


@TRACKERS.register("path", preset="full")
class PathTracker(Scheduled):
    """Smallest Hessian eigenvalue, curvature and loss along the path to SAM's perturbed weights.

    κ_min, curvature along the path and loss at t = 0, ¼, ½, ¾, 1 between θ and θ + ρ g/‖g‖, on a probe.
    """

    def __init__(
        self, horizon: Horizon, *, every: int | None = None, examples: int = 128, rho: float | None = None
    ) -> None:
        super().__init__(horizon, every=every)
        if rho is not None and rho <= 0:
            raise OptionError(f"Expected rho > 0, but got {rho:g}. Write rho=0.05, say.")
        self._probe, self._rho = Probe(examples), rho

    def measure(self, moment: Moment) -> dict[str, float]:
        """Follow the path with the optimizer's own radius, or 0.05 where it has none."""
        x, y, *_ = self._probe(moment)
        rho = self._rho or optimizer_options(moment).get("rho") or 0.05
        path = ascent_path(moment.model, x, y, rho=rho, loss=curvature_loss(moment))
        values = {
            "path/kappa_min": path.kappa_min.min().item(),
            "path/bound": path.bound,
            "path/gradient_norm": path.gradient_norm,
            "path/rho": path.rho,
            "path/examples": len(y),
        }
        rows = zip(path.t.tolist(), path.kappa_min, path.kappa_error, path.along, path.loss, strict=True)
        for t, kappa, error, along, loss in rows:
            values[f"path/kappa_min@{t:g}"] = kappa.item()
            values[f"path/kappa_error@{t:g}"] = error.item()
            values[f"path/along@{t:g}"] = along.item()
            values[f"path/loss@{t:g}"] = loss.item()
        return values
