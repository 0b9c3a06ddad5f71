"""Numbers over seeds and along runs, with intervals at 95 %: the one place that reports and studies take them from."""

from surefoot.statistics.seeds import NOTHING, Estimate, Spread, difference, mean, ratio, spread, u_shape
from surefoot.statistics.series import LEAST, Array, correlate, correlation, effective_size, pearson, spearman

__all__ = [
    "LEAST",
    "NOTHING",
    "Array",
    "Estimate",
    "Spread",
    "correlate",
    "correlation",
    "difference",
    "effective_size",
    "mean",
    "pearson",
    "ratio",
    "spearman",
    "spread",
    "u_shape",
]
