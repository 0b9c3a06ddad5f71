"""How much of the gradient lies in the most curved directions."""

from __future__ import annotations

from surefoot.curvature import Hessian, alignment, hessian_top_eigenpairs
from surefoot.errors import OptionError
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Probe, Scheduled, curvature_loss


@TRACKERS.register("alignment", preset="full")
class Alignment(Scheduled):
    """Share of the gradient, of a probe and of the last batch, inside the top-k Hessian eigenspace.

    ‖Uᵀg‖²/‖g‖² with U the top-k Hessian eigenvectors of a probe, for the probe's and the last batch's gradient.
    """

    def __init__(self, horizon: Horizon, *, every: int = 50, examples: int = 256, k: int = 5) -> None:
        super().__init__(horizon, every=every)
        if k < 1:
            raise OptionError(f"Expected k ≥ 1, but got {k}. Try k=5.")
        self._probe, self.k = Probe(examples), k

    def measure(self, moment: Moment) -> dict[str, float]:
        """Find the basis anew, from the gradient: it depends on the moment alone."""
        x, y, *_ = self._probe(moment)
        loss = curvature_loss(moment)
        basis = hessian_top_eigenpairs(moment.model, x, y, k=self.k, loss=loss).vectors
        values = {
            "alignment/probe": alignment(Hessian(moment.model, x, y, loss=loss, cache=False).gradient, basis),
            "alignment/k": self.k,
            "alignment/examples": len(y),
        }
        if moment.batch is not None:
            gradient = Hessian(moment.model, *moment.batch, loss=loss, cache=False).gradient
            values["alignment/batch"] = alignment(gradient, basis)
        return values
