"""ECE behind temperature scaling while training."""

from __future__ import annotations

import torch

from surefoot.calibrators.temperature import fit_temperature
from surefoot.metrics.ece import ece
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.schema import Predictions, SplitName
from surefoot.trackers._base import Scheduled, check_examples, logits_of


@TRACKERS.register("tce", preset="full")
class TemperedECE(Scheduled):
    """ECE on test after temperature scaling, fitted on the calibration split, once per epoch.

    ECE on the test split at the temperature that suits the calibration split at this moment.
    """

    needs_whole = False

    def __init__(self, horizon: Horizon, *, every: int | None = None, examples: int = 5000) -> None:
        super().__init__(horizon, every=every)
        self.examples = check_examples(examples)

    def measure(self, moment: Moment) -> dict[str, float]:
        """Fit on the calibration split, measure on the test split; nothing where those are the same examples."""
        if moment.splits.calibration is moment.splits.test:
            return {}
        fitted = fit_temperature(self._predictions(moment, "calibration"))
        scaled = fitted(self._predictions(moment, "test"))
        probs = torch.from_numpy(scaled.logits).softmax(1)
        return {"test/tce": ece(probs, torch.from_numpy(scaled.labels)).item(), "test/temperature": fitted.temperature}

    def _predictions(self, moment: Moment, name: SplitName) -> Predictions:
        logits, labels = logits_of(moment, name, self.examples)
        return Predictions(logits.numpy(), labels.numpy(), name)
