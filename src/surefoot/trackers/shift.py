"""A certificate for shifted data beside the calibration error that a shift really causes."""

from __future__ import annotations

import copy
import math

from surefoot.certificate import with_robust
from surefoot.errors import OptionError
from surefoot.margins import Evidence, bound_checks
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.schema import Split
from surefoot.trackers._base import Probe, Scheduled
from surefoot.training.predict import predict

SHARES = (0.25, 0.5, 1.0)  # of the radius


@TRACKERS.register("shift", preset="full")
class ShiftCertificate(Scheduled):
    """Certified bound on ECE under shifts up to ε/4, ε/2 and ε, beside the ECE under an attack of that size.

    (K−1) Q⁰_ε of training examples, which bounds ECE under label-preserving shifts up to ε, and ECE under an attack.

    The bound is proven where robust margins are exact or certified from below; ``certified`` says whether.
    """

    def __init__(
        self, horizon: Horizon, *, every: int | None = None, examples: int = 256, epsilon: float = 0.5
    ) -> None:
        super().__init__(horizon, every=every)
        if not epsilon > 0:
            raise OptionError(f"Expected epsilon > 0, but got {epsilon:g}. Write epsilon=0.5, say.")
        self._probe, self.epsilon = Probe(examples), epsilon

    def measure(self, moment: Moment) -> dict[str, float]:
        """Attack the probe at growing radii."""
        x, y, *_ = self._probe(moment)
        model, x = copy.deepcopy(moment.model).double(), x.double() if x.is_floating_point() else x
        plain = Evidence(predict(model, Split(x, y)).double(), y.cpu())
        values: dict[str, float] = {"shift/violated": 0.0, "shift/examples": len(y)}
        for share in SHARES:
            evidence = with_robust(plain, model, x, share * self.epsilon, "l2")
            checks = [check for check in bound_checks(evidence) if "B.8" in check.name or "B.7" in check.name]
            sides = {check.name: check for check in checks}
            loose, tight = sides["corollary B.8"], sides["corollary B.8, bounded"]
            place = f"@{share * self.epsilon:g}"
            values[f"shift/ece{place}"] = math.exp(tight.left)
            values[f"shift/bound{place}"] = math.exp(tight.right)  # the same without the step that can exceed 1
            values[f"shift/log_bound{place}"] = loose.right
            values[f"shift/certified{place}"] = float(evidence.robust_kind != "attack")
            values["shift/violated"] += sum(check.violated for check in checks)
        return values
