"""Batch sharpness: curvature along the batches' own gradients."""

from __future__ import annotations

import torch

from surefoot.curvature import batch_sharpness, batch_thresholds
from surefoot.errors import OptionError
from surefoot.moment import Horizon, Moment
from surefoot.registry import TRACKERS
from surefoot.seeding import generator
from surefoot.trackers._base import Scheduled, curvature_loss, optimizer_options


@TRACKERS.register("batch_sharpness", preset="standard")
class BatchSharpnessTracker(Scheduled):
    """Curvature of batches along their own gradients, with its standard error and SGD's plateaus.

    E_B[gᵀH_B g/‖g‖²] over a few batches of the training size, with its standard error.
    """

    def __init__(self, horizon: Horizon, *, every: int = 100, batches: int = 5) -> None:
        super().__init__(horizon, every=every)
        if batches < 2:
            raise OptionError(f"Expected batches ≥ 2 for a standard error, but got {batches}. Try batches=5.")
        self.batches, self.batch_size = batches, horizon.batch_size

    def measure(self, moment: Moment) -> dict[str, float]:
        """Draw batches without replacement; which ones is a function of the step."""
        train, size = moment.splits.train, min(self.batch_size, len(moment.splits.train))
        device = next(moment.model.parameters()).device
        order = torch.randperm(len(train), generator=generator(0, f"batch sharpness/{moment.step}"))
        rows = [chunk for chunk in order[: self.batches * size].split(size) if len(chunk) == size]
        drawn = ((train.inputs[chunk].to(device), train.labels[chunk].to(device)) for chunk in rows)
        found = batch_sharpness(moment.model, drawn, loss=curvature_loss(moment))
        values = {
            "batch_sharpness/value": found.value,
            "batch_sharpness/error": found.error,
            "batch_sharpness/batches": found.n_batches,
            "batch_sharpness/batch_size": size,
        }
        group = optimizer_options(moment)
        if group.get("lr", 0) > 0 and "betas" not in group:
            small, large = batch_thresholds(group["lr"], momentum=group.get("momentum", 0.0))
            values |= {"batch_sharpness/small_batch_plateau": small, "batch_sharpness/large_batch_plateau": large}
        return values
