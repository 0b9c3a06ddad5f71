"""For the reviewer with predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing._batches import is_batches
from surefoot.auditing._forms import check_form
from surefoot.auditing._harness import check_normalise
from surefoot.auditing._labels import check_meaning
from surefoot.auditing._memory import hold
from surefoot.auditing.apply import Applied, apply
from surefoot.auditing.audit import audit
from surefoot.auditing.calibrate import Fitted, calibrate
from surefoot.auditing.compare import compare_audits
from surefoot.auditing.files import files_of, open_predictions
from surefoot.auditing.result import Audit, AuditComparison

__all__ = [
    "Applied",
    "Audit",
    "AuditComparison",
    "Fitted",
    "apply",
    "audit",
    "calibrate",
    "check_form",
    "check_meaning",
    "check_normalise",
    "compare_audits",
    "files_of",
    "hold",
    "is_batches",
    "open_predictions",
]
