"""Metrics, one file each: a pure function of probabilities and labels, and the sums from which it is computed.

Every registered metric declares ``label``, ``lower_is_better`` (``None`` where neither direction is better), ``range``,
``unit`` (``"%"`` for fractions that are shown in percent, else the unit's name or nothing), ``reference`` and, where
one decimal of a percentage or three of a number do not suffice, ``digits``. All that shows a metric reads these.
Where they exist, it declares ways to compute it that need less than all probabilities:

- ``sums`` and ``finish``: sums over examples in float64, of a size that does not grow with their number, and the
  metric as a function of them. :class:`Stream` adds them up over batches and ranks.
- ``whole``: why there are no such sums; the metric needs all examples at once.
- ``top``: the metric as a function of each example's confidence and correctness alone.
- ``each``: the value per example that the metric is the mean of; ``each_of_logs``: the same from log-probabilities,
  which do not round to 0.

- ``bins``: true where ``finish`` reads the sums of equal-width bins of the top label.
- ``interval``: the kind of interval that covers, or ``none``; ``quadratic``: true where time grows as n².

``perfect`` is the value for perfect predictions where that is not the better end of the range.
"""

from importlib import import_module
from pkgutil import iter_modules

from surefoot.metrics._binning import bin_index
from surefoot.metrics._input import check
from surefoot.metrics._sums import Stream
from surefoot.metrics._top import from_logits, top_label
from surefoot.metrics.accuracy import accuracy
from surefoot.metrics.ada_ece import ada_ece
from surefoot.metrics.aurc import aurc, e_aurc, risk_coverage
from surefoot.metrics.auroc import auroc, misclassification_auroc, threshold_auroc
from surefoot.metrics.bootstrap import bootstrap, bootstrap_sums, paired_bootstrap
from surefoot.metrics.brier import brier
from surefoot.metrics.brier_parts import brier_calibration, brier_refinement
from surefoot.metrics.canonical_ece import canonical_ece
from surefoot.metrics.chance import Chance, chance
from surefoot.metrics.classwise_ece import classwise_ece
from surefoot.metrics.debiased_ece import debiased_ece, debiased_rms_ce
from surefoot.metrics.describe import describe
from surefoot.metrics.ece import ece
from surefoot.metrics.entropy import entropy, true_class_entropy
from surefoot.metrics.interval import Interval
from surefoot.metrics.kce import kce, squared_kce
from surefoot.metrics.mce import mce
from surefoot.metrics.multilabel import LabelStream, LabelVerdict, judge_labels
from surefoot.metrics.nll import nll
from surefoot.metrics.ood import Detection, ood_detection, ood_score
from surefoot.metrics.overconfidence import confidence_gap, overconfidence, underconfidence
from surefoot.metrics.reliability import Consistency, Reliability, consistency, reliability
from surefoot.metrics.risk import Risk, judge_risk
from surefoot.metrics.rms_ce import rms_ce
from surefoot.metrics.selective import RiskCheck, RiskThreshold, risk_above, risk_threshold
from surefoot.metrics.skce import skce
from surefoot.metrics.smooth_ece import smooth_ece
from surefoot.metrics.top_k_accuracy import top_k_accuracy
from surefoot.metrics.verdict import CalibrationVerdict, verdict

__all__ = [
    "CalibrationVerdict",
    "Chance",
    "Consistency",
    "Detection",
    "Interval",
    "LabelStream",
    "LabelVerdict",
    "Reliability",
    "Risk",
    "RiskCheck",
    "RiskThreshold",
    "Stream",
    "accuracy",
    "ada_ece",
    "aurc",
    "auroc",
    "bin_index",
    "bootstrap",
    "bootstrap_sums",
    "brier",
    "brier_calibration",
    "brier_refinement",
    "canonical_ece",
    "chance",
    "check",
    "classwise_ece",
    "confidence_gap",
    "consistency",
    "debiased_ece",
    "debiased_rms_ce",
    "describe",
    "e_aurc",
    "ece",
    "entropy",
    "from_logits",
    "judge_labels",
    "judge_risk",
    "kce",
    "mce",
    "misclassification_auroc",
    "nll",
    "ood_detection",
    "ood_score",
    "overconfidence",
    "paired_bootstrap",
    "reliability",
    "risk_above",
    "risk_coverage",
    "risk_threshold",
    "rms_ce",
    "skce",
    "smooth_ece",
    "squared_kce",
    "threshold_auroc",
    "top_k_accuracy",
    "top_label",
    "true_class_entropy",
    "underconfidence",
    "verdict",
]

# A file that is named like its function, a new one too, must not stand in the function's place: the first import of a
# module makes it an attribute of this package, so all of them are imported here and the functions put back.
for _module in iter_modules(__path__):
    if not _module.name.startswith("_"):
        _found = import_module(f"{__name__}.{_module.name}")
        globals()[_module.name] = getattr(_found, _module.name, _found)
