"""Loss, accuracy and calibration error while training, and how sure the network is on held-out rows."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from surefoot.metrics import Stream, consistency
from surefoot.metrics.accuracy import accuracy
from surefoot.metrics.ece import ece
from surefoot.metrics.kce import kce
from surefoot.metrics.nll import nll
from surefoot.moment import Moment
from surefoot.registry import TRACKERS
from surefoot.schema import SplitName
from surefoot.steering import signal_of
from surefoot.trackers._base import WATCHED, OnLogits, logits_of

METRICS = (("loss", nll), ("accuracy", accuracy), ("ece", ece), ("kce", kce))
DRAWS = 200  # of hits, for the ECE by chance


@TRACKERS.register("quality", preset="cheap")
class Quality(OnLogits):
    """Cross-entropy, accuracy, ECE and KCE on train, calibration and test, once per epoch, on each one's first.

    Cross-entropy (that is, NLL), accuracy, ECE and KCE on the first examples of each split that there is. Of the
    held-out split to choose by (calibration, or test where there is no other) also what a page shows that follows the
    run: the confidence gap and log T with standard errors, the ECE that chance alone stays below, and reliability bins.
    """

    def measure(self, moment: Moment) -> dict[str, Any]:
        """Evaluate train and test, and calibration where that is a split of its own."""
        values: dict[str, Any] = {}
        splits = moment.splits
        more: tuple[SplitName, ...] = () if splits.calibration is splits.test else ("calibration",)
        for name in (*WATCHED, *more):
            logits, labels = logits_of(moment, name, self.examples)
            probs = logits.softmax(1)
            values.update({f"{name}/{label}": metric(probs, labels).item() for label, metric in METRICS})
        held_out: SplitName = more[0] if more else "test"
        return values | _sureness(held_out, *logits_of(moment, held_out, self.examples))


def _sureness(name: SplitName, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """Say how sure the network is on one split, how right it is to be, and how far the rows can tell."""
    logits, labels = logits.cpu(), labels.cpu()
    signal, losses = signal_of(logits, labels), F.cross_entropy(logits, labels, reduction="none")
    stream = Stream("ece")
    stream.update(logits.softmax(1), labels)
    count, confidence, correct = (stream.sums[row].tolist() for row in range(3))
    return {
        f"{name}/loss_error": losses.std().item() / math.sqrt(len(labels)) if len(labels) > 1 else math.nan,
        f"{name}/gap": signal.gap,
        f"{name}/gap_error": signal.gap_error,
        f"{name}/log_temperature": signal.log_temperature,
        f"{name}/log_temperature_error": signal.error,
        f"{name}/ece_by_chance": consistency(stream.sums, n_resamples=DRAWS).limit,
        "bins": {
            "split": name,
            "count": [int(n) for n in count],
            "confidence": [round(c / n, 6) if n else None for c, n in zip(confidence, count, strict=True)],
            "accuracy": [round(c / n, 6) if n else None for c, n in zip(correct, count, strict=True)],
        },
    }
