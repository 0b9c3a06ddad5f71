"""For the reviewer with predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing._labels import check_meaning
from surefoot.auditing._memory import hold
from surefoot.auditing.apply import Applied, apply
from surefoot.auditing.apply_sets import AppliedSets, apply_sets
from surefoot.auditing.audit import audit
from surefoot.auditing.calibrate import Fitted, calibrate
from surefoot.auditing.compare import compare_audits
from surefoot.auditing.conformal import FittedSets, conformal
from surefoot.auditing.files import files_of, open_predictions
from surefoot.auditing.result import Audit, AuditComparison

__all__ = [
    "Applied",
    "AppliedSets",
    "Audit",
    "AuditComparison",
    "Fitted",
    "FittedSets",
    "apply",
    "apply_sets",
    "audit",
    "calibrate",
    "check_meaning",
    "compare_audits",
    "conformal",
    "files_of",
    "hold",
    "open_predictions",
]
