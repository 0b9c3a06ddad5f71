"""Margins while training: by how much the true class leads."""

from __future__ import annotations

import torch

from surefoot.margins import margin_moments, true_margin
from surefoot.moment import Moment
from surefoot.registry import TRACKERS
from surefoot.trackers._base import WATCHED, OnLogits, logits_of

QUANTILES = {"q01": 0.01, "q10": 0.1, "median": 0.5, "q90": 0.9}


@TRACKERS.register("margins", preset="cheap")
class Margins(OnLogits):
    """Quantiles of the true margin, its exponential moment Q and the share ≤ 0, on train and test.

    Quantiles of the true margin, the smallest one γ, log Q = log mean e^{−m}, and the share that is ≤ 0.
    """

    def measure(self, moment: Moment) -> dict[str, float]:
        """Evaluate both splits."""
        values: dict[str, float] = {}
        for name in WATCHED:
            logits, labels = logits_of(moment, name, self.examples)
            found = true_margin(logits, labels)
            moments = margin_moments(found, logits.shape[1])
            levels = torch.tensor(list(QUANTILES.values()), dtype=found.dtype)
            quantiles = zip(QUANTILES, found.quantile(levels).tolist(), strict=True)
            values.update({f"{name}/margin_{key}": value for key, value in quantiles})
            values[f"{name}/margin_min"] = moments.gamma
            values[f"{name}/margin_log_q"] = moments.q
            values[f"{name}/margin_log_bounded"] = moments.bounded
            values[f"{name}/margin_share_negative"] = moments.share_negative
        return values
