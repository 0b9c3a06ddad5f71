"""Numbers over seeds, along runs and of many comparisons: the one place that reports and studies take them from."""

from surefoot.statistics.multiple import bonferroni, holm, p_value
from surefoot.statistics.seeds import NOTHING, Estimate, Spread, difference, mean, ratio, spread, u_shape
from surefoot.statistics.series import LEAST, Array, correlate, correlation, effective_size, pearson, spearman

__all__ = [
    "LEAST",
    "NOTHING",
    "Array",
    "Estimate",
    "Spread",
    "bonferroni",
    "correlate",
    "correlation",
    "difference",
    "effective_size",
    "holm",
    "mean",
    "p_value",
    "pearson",
    "ratio",
    "spearman",
    "spread",
    "u_shape",
]
