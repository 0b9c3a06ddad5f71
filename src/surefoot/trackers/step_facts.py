"""What the optimizer saw in its last step: λ and λ0, the climb, the gradient, the learning rate."""

from __future__ import annotations

from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import Scheduled, optimizer_options

OPTIONS = ("lr", "momentum", "rho")
SAME = ("loss",)  # in the step's own record already


@TRACKERS.register("step_facts", preset="cheap")
class StepFactsTracker(Scheduled):
    """Facts of the last step: λ, λ0, p_y, the length of the climb, gradient norms, learning rate, ρ, γ.

    All facts of the last step that the method has, as numbers; it costs no pass.
    """

    needs_whole = False

    def __init__(self, horizon: Horizon, *, every: int = 10) -> None:
        super().__init__(horizon, every=every)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Read the facts; before the first step there are none."""
        group = optimizer_options(moment)
        values = {f"step/{key}": float(group[key]) for key in OPTIONS if key in group}
        outer = getattr(moment.optimizer, "outer", None)
        if outer is not None and outer.damps:
            values["step/gamma"] = float(outer.gamma)
        facts = getattr(moment.optimizer, "facts", None)
        if facts is not None:
            known = {key: value for key, value in facts.to_json().items() if value is not None and key not in SAME}
            values.update({f"step/{key}": float(value) for key, value in known.items()})
        return values
