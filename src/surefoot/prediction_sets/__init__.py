"""Prediction sets with a guarantee, one file per score: fitted on the calibration split, measured on others.

``fit_sets(predictions, "lac")`` gives a small immutable object. ``sets(probs)`` says which classes are in the set of
each row, ``save`` writes it and :func:`load_sets` reads it back; :func:`measure_sets` says how often the true class is
in the set and how large sets are, and :func:`compare_sets` which score to use.
"""

from surefoot.prediction_sets._law import coverage_range
from surefoot.prediction_sets.aps import aps
from surefoot.prediction_sets.compare import SetCandidate, SetsComparison, compare_sets
from surefoot.prediction_sets.fit import fit_sets
from surefoot.prediction_sets.lac import lac
from surefoot.prediction_sets.measure import PartCoverage, SetMeasures, SetSums, measure_sets
from surefoot.prediction_sets.raps import raps
from surefoot.prediction_sets.sets import PredictionSets, load_sets, load_sets_about

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
