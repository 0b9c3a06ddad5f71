"""Margins while training: by how much the true class leads."""

from __future__ import annotations

import torch

from surefoot.margins.margin import true_margin
from surefoot.margins.moments import moments
from surefoot.registry import TRACKERS
from surefoot.schema import Moment
from surefoot.trackers._base import WATCHED, OnLogits, logits_of, schedule
from surefoot.training.tracker import Horizon, Tracker

QUANTILES = {"q01": 0.01, "q10": 0.1, "median": 0.5, "q90": 0.9}


class Margins(OnLogits):
    """Quantiles of the true margin, the smallest one γ, log Q = log mean e^{−m}, and the share that is ≤ 0."""

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate both splits."""
        values: dict[str, float] = {}
        for name in WATCHED:
            logits, labels = logits_of(moment, name, self.examples)
            found = true_margin(logits, labels)
            all_moments = moments(found, logits.shape[1])
            levels = torch.tensor(list(QUANTILES.values()), dtype=found.dtype)
            quantiles = zip(QUANTILES, found.quantile(levels).tolist(), strict=True)
            values.update({f"{name}/margin_{key}": value for key, value in quantiles})
            values[f"{name}/margin_min"] = all_moments.gamma
            values[f"{name}/margin_log_q"] = all_moments.q
            values[f"{name}/margin_log_bounded"] = all_moments.bounded
            values[f"{name}/margin_share_negative"] = all_moments.share_negative
        return values


@TRACKERS.register("margins", preset="cheap")
def margins(horizon: Horizon, *, every: int | None = None, examples: int = 5000) -> Tracker:
    """Quantiles of the true margin, its exponential moment Q and the share ≤ 0, on train and test."""
    return Margins("margins", schedule(horizon, every), examples)
