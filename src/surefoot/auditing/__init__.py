"""For the reviewer with predictions: can they be trusted, and how can they be repaired?"""

from surefoot.auditing._gate_words import read_limits
from surefoot.auditing.apply import Applied, apply
from surefoot.auditing.apply_sets import AppliedSets, apply_sets
from surefoot.auditing.audit import audit
from surefoot.auditing.baseline import Baseline, load_baseline
from surefoot.auditing.calibrate import Fitted, calibrate
from surefoot.auditing.checked import Gate
from surefoot.auditing.conformal import FittedSets, conformal
from surefoot.auditing.engines import open_engine
from surefoot.auditing.estimate import Estimate, estimate
from surefoot.auditing.gate import check
from surefoot.auditing.parts import AuditPart, audit_part
from surefoot.auditing.ranking import Ranking
from surefoot.auditing.result import Audit, AuditComparison
from surefoot.auditing.several import Several, audit_several, compare_audits
from surefoot.auditing.thresholds import Threshold

__all__ = [
    "Applied",
    "AppliedSets",
    "Audit",
    "AuditComparison",
    "AuditPart",
    "Baseline",
    "Estimate",
    "Fitted",
    "FittedSets",
    "Gate",
    "Ranking",
    "Several",
    "Threshold",
    "apply",
    "apply_sets",
    "audit",
    "audit_part",
    "audit_several",
    "calibrate",
    "check",
    "compare_audits",
    "conformal",
    "estimate",
    "load_baseline",
    "open_engine",
    "read_limits",
]
