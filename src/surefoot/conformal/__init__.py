"""Prediction sets with a guarantee, one file per score: fitted on the calibration split, measured on others.

``fit_sets(predictions, "lac")`` gives a small immutable object. ``sets(probs)`` says which classes are in the set of
each row, ``save`` writes it and :func:`load_sets` reads it back; :func:`measure_sets` says how often the true class is
in the set and how large sets are, and :func:`compare_sets` which score to use.
"""

from surefoot.conformal._law import coverage_range
from surefoot.conformal.aps import aps
from surefoot.conformal.compare import SetCandidate, SetsComparison, compare_sets
from surefoot.conformal.fit import fit_sets
from surefoot.conformal.lac import lac
from surefoot.conformal.measure import PartCoverage, SetMeasures, SetSums, measure_sets
from surefoot.conformal.raps import raps
from surefoot.conformal.sets import PredictionSets, load_sets, load_sets_about

__all__ = [
    "PartCoverage",
    "PredictionSets",
    "SetCandidate",
    "SetMeasures",
    "SetSums",
    "SetsComparison",
    "aps",
    "compare_sets",
    "coverage_range",
    "fit_sets",
    "lac",
    "load_sets",
    "load_sets_about",
    "measure_sets",
    "raps",
]
