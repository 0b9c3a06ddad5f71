"""Histogram binning, one class against the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from surefoot.calibrators._fitting import count_rows, fitting_data, fitting_weights
from surefoot.calibrators._one_vs_rest import default_smoothing
from surefoot.calibrators._steps import Stepwise
from surefoot.errors import OptionError
from surefoot.registry import CALIBRATORS
from surefoot.schema import Predictions


@dataclass(frozen=True, eq=False)
class Histogram(Stepwise):
    """Replaces each class's probability by how often the class was right in its bin, then divides by the sum.

    Example:
        >>> import numpy as np
        >>> values = np.array([[0.1, 0.9], [0.1, 0.9]])
        >>> bins = Histogram(np.full((2, 1), 0.5), values, 0.0, "calibration")
        >>> bins.probs(np.log([[0.8, 0.2]])).round(4)
        array([[0.9, 0.1]])
    """

    name: ClassVar[str] = "histogram"


@CALIBRATORS.register("histogram", reference="Zadrozny and Elkan 2001", keeps_order=False, parameters=lambda k: k)
def fit_histogram(predictions: Predictions, *, n_bins: int = 15, smoothing: float | None = None) -> Histogram:
    """Histogram binning: for each class, the share of hits in equal-width bins (a, b]; empty bins keep their centre.

    Args:
        predictions: Of the calibration split.
        n_bins: Number of bins.
        smoothing: Weight of the uniform distribution; 1 / (n + 1) when left out.

    Returns:
        The fitted calibrator.

    Raises:
        OptionError: If there is no bin.
    """
    if n_bins < 1:
        raise OptionError(f"Expected n_bins ≥ 1, but got {n_bins}. 15 is usual.")
    logits, labels = fitting_data(predictions)
    n_classes, weights = logits.shape[1], fitting_weights(predictions)
    edges = (torch.arange(1, n_bins, dtype=torch.float64) / n_bins).expand(n_classes, -1).contiguous()
    bins = torch.searchsorted(edges, logits.softmax(1).T.contiguous()) + n_bins * torch.arange(n_classes)[:, None]
    each = None if weights is None else weights.expand(n_classes, -1).flatten()
    size = {"minlength": n_bins * n_classes}
    count = torch.bincount(bins.flatten(), each, **size).view(n_classes, n_bins)
    hits = torch.bincount(bins.gather(0, labels[None]).flatten(), weights, **size).view(n_classes, n_bins)
    centre = (torch.arange(n_bins, dtype=torch.float64) + 0.5) / n_bins
    values = torch.where(count > 0, hits / count.clamp(min=1e-300 if weights is not None else 1).double(), centre)
    mixed = default_smoothing(smoothing, count_rows(labels, weights))
    return Histogram(np.asarray(edges), np.asarray(values), mixed, predictions.split)
