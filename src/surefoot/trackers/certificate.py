"""The theorems along a run: what they promise, and how much room they leave."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable

from surefoot.certificate import step_checks, with_robust
from surefoot.curvature import gauss_newton_top_eigenvalue, jacobian_norms
from surefoot.errors import OptionError
from surefoot.margins import Check, Evidence, bound_checks
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.schema import Split
from surefoot.trackers._base import WATCHED, Probe, Scheduled, check_examples, logits_of, optimizer_options
from surefoot.trackers._follow import settled_form
from surefoot.training.predict import predict

N_BINS = 15


@TRACKERS.register("certificate", preset="full")
class Certificate(Scheduled):
    """Slack of every theorem that applies, and the certified bound beside the measured ECE.

    Every theorem that applies, as its slack: right side minus left.

    What needs logits alone is evaluated on the first examples of train and test; curvature and the sharpness-aware
    step on a probe, and so are, where there is an ``epsilon``, robust margins in an l2 ball of that radius, with an
    attack as shifted data. ``violated`` counts proven inequalities that do not hold: it is 0, or there is a bug.
    """

    def __init__(
        self,
        horizon: Horizon,
        *,
        every: int | None = None,
        examples: int = 5000,
        probe: int = 128,
        epsilon: float | None = None,
    ) -> None:
        super().__init__(horizon, every=every)
        if epsilon is not None and epsilon < 0:
            raise OptionError(f"Expected epsilon ≥ 0, but got {epsilon:g}. Write epsilon=0.1, say.")
        self.examples, self._probe, self._epsilon = check_examples(examples), Probe(probe), epsilon

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate the theorems."""
        values: dict[str, float] = {}
        violated = 0
        for name in WATCHED:
            checks = bound_checks(Evidence(*logits_of(moment, name, self.examples), N_BINS))
            values |= _slacks(f"{name}/certificate", checks)
            sides = {check.name: check for check in checks}
            loose, tight = sides["theorem 4.1 (i)"], sides["theorem 4.1 (i), bounded"]
            values[f"{name}/certificate_ece"] = math.exp(tight.left)
            values[f"{name}/certificate_bound"] = math.exp(tight.right)
            values[f"{name}/certificate_log_bound"] = loose.right
            violated += sum(check.violated for check in checks)
        checks = self._probe_checks(moment)
        values |= _slacks("certificate", checks)
        values["certificate/violated"] = violated + sum(check.violated for check in checks)
        values["certificate/examples"] = self._probe.examples
        return values

    def _probe_checks(self, moment: Moment) -> list[Check]:
        """Do on the probe what :func:`surefoot.certificate.certify` does, with products of a settled form."""
        x, y, *_ = self._probe(moment)
        model = copy.deepcopy(moment.model).double()
        x = x.double() if x.is_floating_point() else x
        evidence = Evidence(
            predict(model, Split(x, y)).double(),
            y.cpu(),
            N_BINS,
            gn_sharpness=gauss_newton_top_eigenvalue(model, x, y, tol=1e-6, form=settled_form(model, x, y)).value,
            jacobian_norms=jacobian_norms(model, x).cpu(),
        )
        if self._epsilon is not None:
            evidence = with_robust(evidence, model, x, self._epsilon, "l2")
        rho = optimizer_options(moment).get("rho") or 0.05
        return bound_checks(evidence) + step_checks(model, x, y, rho=rho)


def _slacks(prefix: str, checks: Iterable[Check]) -> dict[str, float]:
    """Write the slack of each check that applies; of several with one name, the smallest."""
    found: dict[str, float] = {}
    for check in checks:
        if check.applies:
            key = f"{prefix}_slack/{re.sub(r'[^a-z0-9]+', '_', check.name.lower()).strip('_')}"
            found[key] = min(check.slack, found.get(key, math.inf))
    return found
