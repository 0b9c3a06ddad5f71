"""Numbers over seeds, along runs and of many comparisons: the one place that reports and studies take them from."""

from surefoot.corrections import holm
from surefoot.statistics.multiple import bonferroni, p_value, step_down
from surefoot.statistics.seeds import NOTHING, Estimate, Spread, difference, mean, ratio, spread, u_shape
from surefoot.statistics.series import LEAST, Array, correlate, correlation, effective_size, pearson, spearman
from surefoot.statistics.tiers import letters, tiers

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
    "letters",
    "mean",
    "p_value",
    "pearson",
    "ratio",
    "spearman",
    "spread",
    "step_down",
    "tiers",
    "u_shape",
]
