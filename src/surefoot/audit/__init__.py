"""For the reviewer with a file of predictions: can they be trusted, and how can they be repaired?"""

from surefoot.audit.audit import audit
from surefoot.audit.compare import compare_audits
from surefoot.audit.files import open_predictions
from surefoot.audit.result import Audit, AuditComparison

__all__ = ["Audit", "AuditComparison", "audit", "compare_audits", "open_predictions"]
