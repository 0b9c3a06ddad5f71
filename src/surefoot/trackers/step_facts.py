"""What the optimizer saw in its last step: λ and λ0, the climb, the gradient, the learning rate."""

from __future__ import annotations

from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import Scheduled, group_of, schedule
from surefoot.training.tracker import Horizon, Tracker

OPTIONS = ("lr", "momentum", "rho")
SAME = ("loss",)  # in the step's own record already


class StepFactsTracker(Scheduled):
    """All facts of the last step that the method has, as numbers; it costs no pass."""

    def measure(self, moment: Moment) -> dict[str, float]:
        """Read the facts; before the first step there are none."""
        group = group_of(moment)
        values = {f"step/{key}": float(group[key]) for key in OPTIONS if key in group}
        facts = getattr(moment.optimizer, "facts", None)
        if facts is not None:
            known = {key: value for key, value in facts.to_json().items() if value is not None and key not in SAME}
            values.update({f"step/{key}": float(value) for key, value in known.items()})
        return values


@TRACKERS.register("step_facts", preset="cheap")
def step_facts(horizon: Horizon, *, every: int = 10) -> Tracker:
    """Facts of the last step: λ, λ0, p_y, the length of the climb, gradient norms, learning rate, radius."""
    return StepFactsTracker("step_facts", schedule(horizon, every))
