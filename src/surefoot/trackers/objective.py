"""The loss that is trained, whatever it is."""

from __future__ import annotations

import torch

from surefoot.moment import Moment
from surefoot.registry import TRACKERS
from surefoot.schema import LossTerms
from surefoot.trackers._base import WATCHED, OnLogits, logits_of


@TRACKERS.register("objective", preset="cheap")
class Objective(OnLogits):
    """The loss that is trained, on train and test, once per epoch.

    The run's own loss, as far as logits and labels determine it, on the first examples of train and test.
    """

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate both splits; nothing where the loop did not say what it trains."""
        if moment.loss is None:
            return {}
        device = next(moment.model.parameters()).device
        values = {}
        for name in WATCHED:
            logits, labels = logits_of(moment, name, self.examples)
            with torch.no_grad():
                terms: LossTerms = moment.loss(logits.float().to(device), labels.to(device))
            value = terms.per_example.mean() + (0.0 if terms.penalty is None else terms.penalty)
            values[f"{name}/objective"] = float(value)
        return values
