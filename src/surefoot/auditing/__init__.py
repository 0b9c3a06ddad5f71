"""For the reviewer with a file of predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing.audit import audit
from surefoot.auditing.compare import compare_audits
from surefoot.auditing.files import open_predictions
from surefoot.auditing.result import Audit, AuditComparison

__all__ = ["Audit", "AuditComparison", "audit", "compare_audits", "open_predictions"]
