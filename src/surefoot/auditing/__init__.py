"""For the reviewer with predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing._labels import check_meaning
from surefoot.auditing._memory import hold
from surefoot.auditing.apply import Applied, apply
from surefoot.auditing.audit import audit
from surefoot.auditing.calibrate import Fitted, calibrate
from surefoot.auditing.compare import compare_audits
from surefoot.auditing.files import files_of, open_predictions
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.auditing.thresholds import Threshold

__all__ = [
    "Applied",
    "Audit",
    "AuditComparison",
    "Fitted",
    "Threshold",
    "apply",
    "audit",
    "calibrate",
    "check_meaning",
    "compare_audits",
    "files_of",
    "hold",
    "open_predictions",
]
