"""How much of the gradient lies in the most curved directions."""

from __future__ import annotations

from surefoot.curvature.eigenbasis import TopEigenbasis
from surefoot.curvature.eigenbasis import alignment as share_inside
from surefoot.curvature.hessian import Hessian
from surefoot.errors import OptionError
from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Probe, Scheduled, curved_loss, schedule
from surefoot.training.tracker import Every, Horizon, Tracker


class Alignment(Scheduled):
    """‖Uᵀg‖²/‖g‖² with U the top-k Hessian eigenvectors of a probe, for the probe's and the last batch's gradient."""

    def __init__(self, due: Every, examples: int, k: int) -> None:
        if k < 1:
            raise OptionError(f"Expected k ≥ 1, but got {k}. Try k=5.")
        super().__init__("alignment", due, price=40 * examples)
        self._probe, self.k = Probe(examples), k

    def measure(self, moment: Moment) -> dict[str, float]:
        """Find the basis anew, from the gradient: it depends on the moment alone."""
        x, y, *_ = self._probe(moment)
        loss = curved_loss(moment)
        solver = TopEigenbasis(moment.model, x, y, k=self.k, loss=loss)
        basis = solver()
        values = {
            "alignment/probe": share_inside(Hessian(moment.model, x, y, loss=loss, cache=False).gradient, basis),
            "alignment/k": self.k,
            "alignment/examples": len(y),
        }
        if moment.batch is not None:
            gradient = Hessian(moment.model, *moment.batch, loss=loss, cache=False).gradient
            values["alignment/batch"] = share_inside(gradient, basis)
        return values


@TRACKERS.register("alignment", preset="full")
def alignment(horizon: Horizon, *, every: int = 50, examples: int = 256, k: int = 5) -> Tracker:
    """Share of the gradient, of a probe and of the last batch, inside the top-k Hessian eigenspace."""
    return Alignment(schedule(horizon, every), examples, k)
