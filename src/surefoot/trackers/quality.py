"""Loss, accuracy and calibration error while training."""

from __future__ import annotations

from surefoot.metrics.accuracy import accuracy
from surefoot.metrics.ece import ece
from surefoot.metrics.kce import kce
from surefoot.metrics.nll import nll
from surefoot.moment import Moment
from surefoot.registry import TRACKERS
from surefoot.schema import SplitName
from surefoot.trackers._base import WATCHED, OnLogits, logits_of

METRICS = (("loss", nll), ("accuracy", accuracy), ("ece", ece), ("kce", kce))


@TRACKERS.register("quality", preset="cheap")
class Quality(OnLogits):
    """Cross-entropy, accuracy, ECE and KCE on train, calibration and test, once per epoch, on each one's first.

    Cross-entropy (that is, NLL), accuracy, ECE and KCE on the first examples of each split that there is.
    """

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate train and test, and calibration where that is a split of its own."""
        values = {}
        splits = moment.splits
        more: tuple[SplitName, ...] = () if splits.calibration is splits.test else ("calibration",)
        for name in (*WATCHED, *more):
            logits, labels = logits_of(moment, name, self.examples)
            probs = logits.softmax(1)
            values.update({f"{name}/{label}": metric(probs, labels).item() for label, metric in METRICS})
        return values
