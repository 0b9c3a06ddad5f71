"""Loss, accuracy and ECE while training."""

from __future__ import annotations

from dataclasses import dataclass

from surefoot.metrics.accuracy import accuracy
from surefoot.metrics.ece import ece
from surefoot.metrics.nll import nll
from surefoot.registry import TRACKERS
from surefoot.schema import Moment, Split, SplitName
from surefoot.train.predict import predict
from surefoot.train.tracker import Horizon, Tracker

WATCHED: tuple[SplitName, ...] = ("train", "test")


@dataclass(frozen=True)
class Quality:
    """Cross-entropy, accuracy and ECE on the first examples of the train and the test split."""

    every: int
    examples: int
    name: str = "quality"

    def due(self, step: int) -> bool:
        """Measure at the start and at the end of every epoch."""
        return step % self.every == 0

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate both splits."""
        values = {}
        for name in WATCHED:
            split = moment.splits[name]
            probe = Split(split.inputs[: self.examples], split.labels[: self.examples])
            probs = predict(moment.model, probe).double().softmax(1)
            for label, metric in (("loss", nll), ("accuracy", accuracy), ("ece", ece)):
                values[f"{name}/{label}"] = metric(probs, probe.labels).item()
        return values


@TRACKERS.register("quality")
def quality(horizon: Horizon, *, examples: int = 5000) -> Tracker:
    """Loss, accuracy and ECE on train and test, at every epoch's end, on the first examples of each."""
    return Quality(horizon.steps_per_epoch, examples)
